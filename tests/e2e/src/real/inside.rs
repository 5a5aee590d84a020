//! The inner half.
use std::path::Path;
pub(super) async fn run(image: &Path, _directory: &Path) -> anyhow::Result<()> {
    super::serve::start(image.to_owned()).await?;
    Ok(())
}
