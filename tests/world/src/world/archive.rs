//! Archives of the packages that clients install.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The files, each a path with its content, and the folders that they are in.
pub(super) fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in files {
        // dpkg makes no folder that the package does not have.
        let above: Vec<_> = std::path::Path::new(path).ancestors().skip(1).collect();
        for folder in above.into_iter().rev().filter(|folder| folder.as_os_str().len() > 1) {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            header.set_mode(0o755);
            archive.append_data(&mut header, folder, [].as_slice()).expect("an archive in memory");
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, content.as_bytes()).expect("an archive in memory");
    }
    archive.into_inner().expect("an archive in memory")
}

/// The same, compressed.
pub(super) fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&tar(files)).expect("an archive in memory");
    encoder.finish().expect("an archive in memory")
}
