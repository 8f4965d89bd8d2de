//! Packs that are built here, and the proofs that they give.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

use super::commit::Format;
use super::pack::{Malformed, Pack};

const COMMIT: u8 = 1;
const BLOB: u8 = 3;
const OFS_DELTA: u8 = 6;
const REF_DELTA: u8 = 7;

fn deflated(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// The header of an object.
fn head(kind: u8, mut size: usize) -> Vec<u8> {
    let mut bytes = vec![kind << 4 | u8::try_from(size & 15).unwrap()];
    size >>= 4;
    while size > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push(u8::try_from(size & 0x7f).unwrap());
        size >>= 7;
    }
    bytes
}

fn object(kind: u8, data: &[u8]) -> Vec<u8> {
    [head(kind, data.len()), deflated(data)].concat()
}

fn ofs_delta(back: usize, delta: &[u8]) -> Vec<u8> {
    let mut offset = vec![u8::try_from(back & 0x7f).unwrap()];
    let mut back = back >> 7;
    while back > 0 {
        back -= 1;
        offset.insert(0, 0x80 | u8::try_from(back & 0x7f).unwrap());
        back >>= 7;
    }
    [head(OFS_DELTA, delta.len()), offset, deflated(delta)].concat()
}

fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |digits, byte| digits + &format!("{byte:02x}"))
}

/// A commit and its id.
fn commit(format: Format, parents: &[[u8; 32]], message: &str) -> (Vec<u8>, [u8; 32]) {
    let tree = "a".repeat(2 * format.length());
    let line = |id: &[u8; 32]| format!("parent {}\n", hex(&id[..format.length()]));
    let parents = parents.iter().fold(String::new(), |lines, id| lines + &line(id));
    let text =
        format!("tree {tree}\n{parents}author A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\n{message}\n");
    let id = format.id_of(text.as_bytes()).unwrap();
    (text.into_bytes(), id)
}

fn pack(objects: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(objects.len()).unwrap().to_be_bytes();
    [b"PACK\0\0\0\x02".as_slice(), &count, &objects.concat()].concat()
}

/// Reads a pack in pieces of `piece` bytes; returns it and how much of it was read.
fn read(format: Format, bytes: &[u8], piece: usize) -> Result<(Pack, usize), Malformed> {
    let mut pack = Pack::new(format);
    let mut total = 0;
    for piece in bytes.chunks(piece.max(1)) {
        let mut rest = piece;
        loop {
            let mut effort = 1000;
            let read = pack.read(rest, &mut effort)?;
            total += read;
            rest = &rest[read..];
            if effort > 0 {
                break;
            }
        }
    }
    Ok((pack, total))
}

#[test]
fn only_a_line_of_commits_is_followed() {
    for format in [Format::Sha1, Format::Sha256] {
        let (_, old) = commit(format, &[], "before the push");
        let (_, other) = commit(format, &[], "elsewhere");
        let (first, first_id) = commit(format, &[old], "first");
        let (merge, merge_id) = commit(format, &[other, first_id], "merge");
        // The child is stored as a delta of its parent's text, by place and by id.
        let (child, child_id) = commit(format, &[merge_id], "child");
        let delta = |base: &[u8], new: &[u8]| {
            let length = |value: usize| {
                [u8::try_from(value & 0x7f).unwrap() | 0x80, u8::try_from(value >> 7).unwrap()]
            };
            let mut delta = [length(base.len()), length(new.len())].concat();
            for piece in new.chunks(127) {
                delta.push(u8::try_from(piece.len()).unwrap());
                delta.extend(piece);
            }
            delta
        };
        let last = object(COMMIT, &merge);
        let delta = delta(&merge, &child);
        let by_id =
            [head(REF_DELTA, delta.len()), merge_id[..format.length()].to_vec(), deflated(&delta)].concat();
        for child in [ofs_delta(last.len(), &delta), by_id] {
            let objects = [
                object(COMMIT, &first),
                object(BLOB, &vec![7; 100_000]),
                object(BLOB, b""),
                last.clone(),
                child,
            ];
            let bytes = [pack(&objects), vec![9; format.length()]].concat();
            for piece in [1, 7, 1000, bytes.len()] {
                let (pack, total) = read(format, &bytes, piece).unwrap();
                assert!(pack.is_read());
                assert_eq!(total, bytes.len() - format.length());
                assert!(pack.ancestry.reaches(&child_id, &old) && pack.ancestry.reaches(&child_id, &other));
                assert!(pack.ancestry.reaches(&first_id, &old) && pack.ancestry.reaches(&old, &old));
                assert!(!pack.ancestry.reaches(&old, &child_id) && !pack.ancestry.reaches(&first_id, &other));
            }
        }
    }
}

#[test]
fn shallow_commit_has_no_parents() {
    let format = Format::Sha1;
    let (_, old) = commit(format, &[], "before the push");
    let (first, first_id) = commit(format, &[old], "first");
    let (second, second_id) = commit(format, &[first_id], "second");
    let bytes = pack(&[object(COMMIT, &second), object(COMMIT, &first)]);
    for (shallow, proven) in
        [(None, true), (Some(old), true), (Some(first_id), false), (Some(second_id), false)]
    {
        let mut pack = Pack::new(format);
        if let Some(commit) = shallow {
            pack.ancestry.cut(commit);
        }
        let mut effort = usize::MAX;
        pack.read(&bytes, &mut effort).unwrap();
        assert_eq!(pack.ancestry.reaches(&second_id, &old), proven);
        assert!(pack.ancestry.reaches(&first_id, &first_id));
    }
}

#[test]
fn malformed_pack_is_refused() {
    let good = object(COMMIT, b"tree");
    let sized = |size: usize, data: &[u8]| pack(&[[head(BLOB, size), deflated(data)].concat()]);
    for bytes in [
        b"PACK\0\0\0\x03\0\0\0\0".to_vec(),
        b"KCAP\0\0\0\x02\0\0\0\0".to_vec(),
        sized(3, b"four"),
        sized(5, b"four"),
        pack(&[object(0, b"x")]),
        pack(&[object(5, b"x")]),
        pack(&[vec![0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]]),
        pack(&[good.clone(), ofs_delta(good.len() + 100, b"x")]),
        pack(&[good.clone(), ofs_delta(0, b"x")]),
        pack(&[[head(BLOB, 4), b"no zlib".to_vec()].concat()]),
        // With a dictionary.
        pack(&[[head(BLOB, 4), vec![0x78, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0]].concat()]),
    ] {
        assert_eq!(read(Format::Sha1, &bytes, 5).err(), Some(Malformed), "{}", bytes.escape_ascii());
    }
    let mut wrong_sum = pack(&[object(BLOB, b"four")]);
    *wrong_sum.last_mut().unwrap() ^= 1;
    assert_eq!(read(Format::Sha1, &wrong_sum, 1).err(), Some(Malformed));
}

#[test]
fn pack_beyond_the_memory_bound_proves_nothing() {
    let format = Format::Sha1;
    let (_, old) = commit(format, &[], "before the push");
    let mut objects = Vec::new();
    let (mut last, mut line) = (old, Vec::new());
    for number in 0..26_000 {
        let (text, id) = commit(format, &[last], &number.to_string());
        objects.push([head(COMMIT, text.len()), stored(&text)].concat());
        last = id;
        line.push(id);
    }
    let (pack, _) = read(format, &pack(&objects), usize::MAX).unwrap();
    assert!(pack.is_read());
    assert!(pack.ancestry.reaches(&line[10_000], &old) && !pack.ancestry.reaches(&last, &old));
}

/// Like `deflated`, but without compression.
fn stored(data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    let (low, high) = data.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    let sum = high << 16 | low;
    [b"\x78\x01\x01", &length.to_le_bytes()[..], &(!length).to_le_bytes(), data, &sum.to_be_bytes()].concat()
}

fn any_object() -> impl Strategy<Value = Vec<u8>> {
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        (1..8_u8, data.clone()).prop_map(|(kind, data)| object(kind, &data)),
        (0..300_usize, data.clone()).prop_map(|(back, data)| ofs_delta(back, &data)),
        data,
    ]
}

proptest! {
    /// How a pack is split does not matter, and nothing panics.
    #[test]
    fn pack_is_read_alike_in_any_pieces(objects in proptest::collection::vec(any_object(), 0..6), piece in 1..50_usize) {
        let bytes = Bytes::from(pack(&objects));
        let (at_once, in_pieces) = (read(Format::Sha1, &bytes, usize::MAX), read(Format::Sha1, &bytes, piece));
        prop_assert_eq!(at_once.as_ref().err(), in_pieces.as_ref().err());
        if let (Ok((one, all)), Ok((other, parts))) = (at_once, in_pieces) {
            prop_assert_eq!((one.is_read(), all), (other.is_read(), parts));
        }
    }
}
