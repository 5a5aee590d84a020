//! The date format of HTTP headers.

use std::time::SystemTime;
use std::time::UNIX_EPOCH;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// For example `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86400, seconds % 86400);
    let (year, month, day) = civil(days);
    let weekday = index(&DAYS, days % 7);
    let month = index(&MONTHS, month - 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

fn index<'a>(names: &[&'a str], number: u64) -> &'a str {
    usize::try_from(number).ok().and_then(|number| names.get(number)).copied().unwrap_or_default()
}

/// Year, month and day, counted from 1970. The year of the count begins in March, so that the leap
/// day is its last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    use super::http_date;

    #[test]
    fn dates_are_written_as_http_wants_them() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_796_083_199, "Mon, 30 Nov 2026 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
