//! The model of a guest's processors.

use super::Format;
use super::properties;

properties! {
    /// The model of a guest's processors.
    Cpu {
        /// The model, such as `host` or `x86-64-v2-AES`.
        "cputype" model: String,
        /// Features switched on or off, such as `+aes;-pcid`.
        "flags" flags: String,
        /// Whether the guest is not told that it is one.
        "hidden" hidden: bool,
        /// The vendor that Windows is told.
        "hv-vendor-id" vendor_id: String,
        /// The number of bits of a physical address, or `host`.
        "phys-bits" physical_bits: String,
        /// The model that the guest is told.
        "reported-model" reported_model: String,
    }
}

impl Format for Cpu {
    const DEFAULT_KEY: Option<&'static str> = Some("cputype");
}
