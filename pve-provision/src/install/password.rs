//! The hash of a password, the only form in which it may stand in an argument.

use secrecy::ExposeSecret as _;
use secrecy::SecretString;
use sha_crypt::PasswordHasher as _;
use sha_crypt::ShaCrypt;

use super::problem::Problem;

/// SHA-512 crypt (`$6$…`) with a random salt; Proxmox VE keeps such a hash as it is.
pub(crate) async fn hash(password: &SecretString) -> Result<String, Problem> {
    let password = password.clone();
    // Thousands of rounds: not on a thread that serves others.
    let hash = tokio::task::spawn_blocking(move || {
        ShaCrypt::default()
            .hash_password(password.expose_secret().as_bytes())
            .map(|hash| hash.to_string())
    });
    match hash.await {
        Ok(Ok(hash)) => Ok(hash),
        Ok(Err(error)) => Err(Problem::Refused(format!("passwd cannot be hashed: {error}"))),
        Err(error) => Err(Problem::Refused(format!("passwd cannot be hashed: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use sha_crypt::PasswordVerifier as _;

    use super::*;

    #[tokio::test]
    async fn a_hash_is_salted_sha512_crypt_of_any_text() {
        let password = SecretString::from("it's \"$HOME\" \\ ü ".repeat(12));
        let (first, second) = (hash(&password).await.unwrap(), hash(&password).await.unwrap());
        assert!(first.starts_with("$6$") && first != second, "{first}");
        ShaCrypt::default()
            .verify_password(password.expose_secret().as_bytes(), first.as_str())
            .unwrap();
    }
}
