//! What can go wrong with a download.

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Every request is answered with this status.
    Status(u16),
    /// HEAD is answered with this status; GET works.
    HeadStatus(u16),
    /// The request is taken and never answered.
    Hang,
    /// A page of HTML with the status 200, as a captive portal sends it.
    Html,
    /// The request is sent elsewhere: a path on this mirror, or a whole URL.
    Redirect(String),
    /// The connection ends after this share of the body, in per cent.
    Cut(u64),
    /// Nothing more comes after this share of the body, in per cent, and the connection stays.
    Stall(u64),
    /// GET claims and delivers only this share of the file, in per cent: HEAD says another length.
    Short(u64),
    /// The length is not told; the body comes in chunks.
    Chunked,
    /// One bit of every piece is wrong; the length is right.
    Corrupt,
    /// A checksum list tells other sums.
    OtherSums,
    /// Not more than this many bytes a second.
    Rate(u64),
    /// A range that is asked for is ignored.
    NoRanges,
    /// Neither `ETag` nor `Last-Modified`.
    NoValidators,
}

impl Fault {
    /// Whether a request of this kind meets it.
    fn concerns(&self, head: bool) -> bool {
        match self {
            Self::HeadStatus(_) => head,
            Self::Cut(_)
            | Self::Stall(_)
            | Self::Short(_)
            | Self::Corrupt
            | Self::Rate(_)
            | Self::NoRanges => !head,
            Self::Status(_)
            | Self::Hang
            | Self::Html
            | Self::Redirect(_)
            | Self::Chunked
            | Self::OtherSums
            | Self::NoValidators => true,
        }
    }
}

/// How often something goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// For so many requests.
    Times(u32),
    /// Until it is taken away.
    Always,
}

impl Times {
    /// Once.
    pub const ONCE: Self = Self::Times(1);
}

/// The faults that are planted.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(String, Fault, Times)>);

impl Faults {
    pub(crate) fn plant(&mut self, path: &str, fault: Fault, times: Times) {
        self.0.push((path.to_owned(), fault, times));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What goes wrong with this request: everything at once that is planted for it.
    pub(crate) fn meet(&mut self, path: &str, head: bool) -> Met {
        let mut met = Met::default();
        self.0.retain_mut(|(end, fault, times)| {
            if !path.ends_with(end.as_str()) || !fault.concerns(head) {
                return true;
            }
            match times {
                Times::Times(0) => return false,
                Times::Times(left) => *left -= 1,
                Times::Always => {}
            }
            met.add(fault);
            true
        });
        met
    }
}

/// All that goes wrong with one request.
#[derive(Debug, Default)]
pub(crate) struct Met {
    pub(crate) status: Option<u16>,
    pub(crate) hang: bool,
    pub(crate) html: bool,
    pub(crate) redirect: Option<String>,
    pub(crate) cut: Option<u64>,
    pub(crate) stall: Option<u64>,
    pub(crate) short: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) corrupt: bool,
    pub(crate) other_sums: bool,
    pub(crate) rate: Option<u64>,
    pub(crate) no_ranges: bool,
    pub(crate) no_validators: bool,
}

impl Met {
    fn add(&mut self, fault: &Fault) {
        match fault {
            Fault::Status(code) | Fault::HeadStatus(code) => self.status = Some(*code),
            Fault::Hang => self.hang = true,
            Fault::Html => self.html = true,
            Fault::Redirect(place) => self.redirect = Some(place.clone()),
            Fault::Cut(percent) => self.cut = Some(*percent),
            Fault::Stall(percent) => self.stall = Some(*percent),
            Fault::Short(percent) => self.short = Some(*percent),
            Fault::Chunked => self.chunked = true,
            Fault::Corrupt => self.corrupt = true,
            Fault::OtherSums => self.other_sums = true,
            Fault::Rate(rate) => self.rate = Some(*rate),
            Fault::NoRanges => self.no_ranges = true,
            Fault::NoValidators => self.no_validators = true,
        }
    }
}
