//! The mirror as the nodes see it.

use super::State;
use crate::mirror::Mirror;
use crate::world::Web;

/// Lets nodes download the mirror's images.
pub(super) fn publish(state: &State, mirror: &Mirror) {
    let mut world = state.world();
    for image in mirror.images() {
        let file = mirror.file(&image.path);
        let web = Web {
            size: file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |data| data.len()),
            mime: "application/octet-stream".to_owned(),
            format: "qcow2".to_owned(),
            file,
            ..Web::default()
        };
        world.host.web.insert(format!("{}{}", mirror.url(), image.path), web);
    }
}
