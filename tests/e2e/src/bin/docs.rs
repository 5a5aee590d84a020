//! `cargo xtask docs`: writes the generated parts of the documents.

#![expect(clippy::print_stdout, reason = "this is a program for a terminal")]

fn main() -> anyhow::Result<()> {
    for part in pve_e2e::docs::write()? {
        println!("docs/{part}");
    }
    Ok(())
}
