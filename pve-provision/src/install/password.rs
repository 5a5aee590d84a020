//! The hash of a password, the only form in which it may stand in an argument.

use secrecy::ExposeSecret as _;
use secrecy::SecretString;
use sha_crypt::PasswordHasher as _;
use sha_crypt::ShaCrypt;

use super::problem::Problem;

/// Random bytes of a salt, 16 characters when written: a guest's crypt cuts a longer salt off, and
/// then no password fits the hash.
const SALT: usize = 12;

/// SHA-512 crypt (`$6$…`) with a random salt; Proxmox VE keeps such a hash as it is.
pub(crate) async fn hash(password: &SecretString) -> Result<String, Problem> {
    let password = password.clone();
    // Thousands of rounds: not on a thread that serves others.
    let hash = tokio::task::spawn_blocking(move || {
        let salt = sha_crypt::password_hash::try_generate_salt()
            .map_err(|error| format!("there is no random salt: {error}"))?;
        ShaCrypt::default()
            .hash_password_with_salt(password.expose_secret().as_bytes(), &salt[..SALT])
            .map(|hash| hash.to_string())
            .map_err(|error| error.to_string())
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
        let salt = first.split('$').nth_back(1).unwrap();
        assert_eq!(salt.len(), 16, "crypt(3) uses no more than that, and writes no more back");
        ShaCrypt::default()
            .verify_password(password.expose_secret().as_bytes(), first.as_str())
            .unwrap();
    }
}
