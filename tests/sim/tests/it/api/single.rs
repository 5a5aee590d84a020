//! Calls whose credentials are no ordinary ones.

use pve_sim::world::access::Access;

use super::row::encoded;

/// The header that a row's caller sent in place of an ordinary ticket or token.
pub(super) fn header(row: &str, access: &Access, now: u64) -> Option<(&'static str, String)> {
    let ticket = || access.ticket("admin@pve", "", now);
    let cookie = |ticket: &str| Some(("Cookie", format!("PVEAuthCookie={ticket}")));
    let token = |text: &str| Some(("Authorization", text.to_owned()));
    match row {
        "version-ticket-unescaped-cookie" => cookie(&ticket()),
        "version-bad-ticket-401" => cookie(&encoded(&ticket().replace("admin", "root"))),
        "version-expired-ticket-401" => {
            cookie(&encoded(&access.ticket("admin@pve", "", now - 7201)))
        }
        "version-bad-token-secret-401" => {
            token("PVEAPIToken=root@pam!tok=00000000-0000-0000-0000-000000000000")
        }
        "version-unknown-token-401" => {
            token("PVEAPIToken=root@pam!nope=00000000-0000-0000-0000-000000000000")
        }
        "version-malformed-token-401" => token("PVEAPIToken=garbage"),
        "version-bearer-401" => token("Bearer abc"),
        _ => None,
    }
}
