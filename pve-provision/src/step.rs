//! The steps of every flow: their names on the wire and what a failure in one of them means.

/// What a failure in a step does to the VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// There is no VM yet.
    Nothing,
    /// The half-made VM is stopped and destroyed, when it carries the mark of this job.
    Destroy,
    /// The VM stays, so that its admin can look at it.
    Keep,
}

/// When a cancellation takes effect in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruptible {
    /// At once: the step only waits or reads.
    Yes,
    /// Never: the step is one command, which is let finish.
    No,
    /// The step's command is let finish, the wait that follows is cut at once.
    AfterItsCommand,
}

macro_rules! steps {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $on_failure:ident, $interruptible:ident;)+) => {
        /// One step of a flow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Step {
            $($(#[$doc])* $variant,)+
        }

        impl Step {
            /// All steps, those of the operations on existing VMs included.
            pub const EVERY: &[Self] = &[$(Self::$variant),+];

            /// The name on the wire: `<stage> > <step>`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What a failure here does to the VM.
            pub const fn on_failure(self) -> OnFailure {
                match self {
                    $(Self::$variant => OnFailure::$on_failure,)+
                }
            }

            /// When a cancellation takes effect here.
            pub const fn interruptible(self) -> Interruptible {
                match self {
                    $(Self::$variant => Interruptible::$interruptible,)+
                }
            }
        }
    };
}

steps! {
    /// The lowest free VMID is found, or the requested one taken.
    CheckingVmid = "preparation > checking VMID", Nothing, Yes;
    /// The address follows from the VMID.
    AssigningIp = "preparation > assigning IP", Nothing, Yes;
    /// Cores and memory are clamped.
    ValidatingCpuAndRam = "preparation > validating CPU and RAM", Nothing, Yes;
    /// The disk size is clamped.
    ValidatingDiskSize = "preparation > validating disk size", Nothing, Yes;
    /// Name, user and password get their defaults.
    SettingDefaultConfigValues = "preparation > setting default config values", Nothing, Yes;
    /// The storage is looked at.
    CheckingStoragePool = "preparation > checking storage pool", Nothing, No;
    /// The image's address is looked up.
    GettingOsImage = "OS preparation > getting OS image", Nothing, Yes;
    /// The publisher is asked for the image by `HEAD`.
    ValidatingOsImageUrl = "OS preparation > validating OS image URL", Nothing, Yes;
    /// The image is downloaded and verified.
    DownloadingOsImage = "OS preparation > downloading OS image", Nothing, Yes;
    /// The image is already in the cache; stands in the place of the download.
    UsingOsImage = "OS preparation > using OS image", Nothing, Yes;
    /// The node's own SSH key is found, or made.
    CheckingSshKey = "SSH preparation > checking SSH key", Nothing, No;
    /// `qm create`.
    CreatingVm = "VM creation > creating VM", Destroy, No;
    /// `qm importdisk`.
    ImportingDiskImage = "VM creation > importing disk image", Destroy, No;
    /// `qm set`, `qm resize`, `qm set --ipconfig0`.
    InitializingConfiguration = "VM initialization > initializing configuration", Destroy, No;
    /// `qm migrate`, only when another node was asked for.
    MigratingVm = "VM initialization > migrating VM", Keep, No;
    /// `qm start`, then the wait for a login.
    WaitingForReady = "VM initialization > waiting for ready", Keep, AfterItsCommand;
    /// cloud-init is waited for and the init script is run.
    SshInitialization = "VM initialization > SSH initialization", Destroy, Yes;
    /// `qm reboot`, then the wait for a login on the new boot.
    RebootingVm = "VM initialization > rebooting VM", Keep, AfterItsCommand;
    /// The result is told.
    Finalizing = "VM initialization > finalizing", Keep, Yes;
    /// The wizard's account is compared with what it must be allowed.
    CheckingPrivileges = "VM creation > checking privileges", Nothing, Yes;
    /// `POST /nodes/{node}/qemu` and its task, which leaves nothing behind when it fails.
    CreatingThroughApi = "VM creation > creating through the API", Nothing, No;
    /// `serial0=socket` and `vga=serial0`, so that the web UI's console is the serial one.
    SettingUpConsole = "VM creation > setting up serial console", Keep, No;
    /// The wizard's VM is started.
    StartingVm = "VM creation > starting VM", Keep, AfterItsCommand;
    /// The wizard's VM is put under HA.
    AddingToHa = "VM creation > adding to HA", Keep, No;
    /// `qm start` of an existing VM.
    OperationStarting = "VM operation > starting VM", Keep, No;
    /// `qm reboot` of an existing VM.
    OperationRebooting = "VM operation > rebooting VM", Keep, No;
    /// The wait after a start or reboot of an existing VM.
    OperationWaiting = "VM operation > waiting for ready", Keep, Yes;
    /// `qm migrate` of an existing VM.
    OperationMigrating = "VM operation > migrating VM", Keep, No;
}

impl Step {
    /// The steps of an install in their order; `using OS image` stands for a download that is not needed.
    pub const ALL: [Self; 19] = [
        Self::CheckingVmid,
        Self::AssigningIp,
        Self::ValidatingCpuAndRam,
        Self::ValidatingDiskSize,
        Self::SettingDefaultConfigValues,
        Self::CheckingStoragePool,
        Self::GettingOsImage,
        Self::ValidatingOsImageUrl,
        Self::DownloadingOsImage,
        Self::UsingOsImage,
        Self::CheckingSshKey,
        Self::CreatingVm,
        Self::ImportingDiskImage,
        Self::InitializingConfiguration,
        Self::MigratingVm,
        Self::WaitingForReady,
        Self::SshInitialization,
        Self::RebootingVm,
        Self::Finalizing,
    ];

    /// The step of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::EVERY.iter().copied().find(|step| step.name() == name)
    }
}

impl serde::Serialize for Step {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Step {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Self::from_name(&name)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown step '{name}'")))
    }
}
