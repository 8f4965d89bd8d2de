//! Checks that a program can run in an empty container.

/// The bytes of a program's head that are read.
pub(super) const HEAD: u64 = 4096;

const MAGIC: &[u8] = b"\x7fELF";
/// 64 bits, little-endian: every supported architecture.
const CLASS_AND_ORDER: &[u8] = &[2, 1];
/// The type of a program header that names a dynamic loader.
const INTERPRETER: u32 = 3;

/// Why `head`, the beginning of a program, would not run as a static program of this machine's
/// architecture; `None` if it would.
pub(super) fn problem(head: &[u8]) -> Option<String> {
    if !head.starts_with(MAGIC) || head.get(4..6) != Some(CLASS_AND_ORDER) {
        return Some("it is not a 64-bit Linux program".to_owned());
    }
    let (Some(machine), Some(ours)) = (u16_at(head, 18), machine_of(std::env::consts::ARCH)) else {
        return Some("its head is truncated, or this machine's architecture is not supported".to_owned());
    };
    if machine != ours {
        return Some(format!("it is for another architecture than {}", std::env::consts::ARCH));
    }
    match has_interpreter(head) {
        Some(false) => None,
        Some(true) => Some("it is not linked statically".to_owned()),
        None => Some("its program headers are not where they should be".to_owned()),
    }
}

fn has_interpreter(head: &[u8]) -> Option<bool> {
    let offset = usize::try_from(u64::from_le_bytes(array_at(head, 32)?)).ok()?;
    let (size, count) = (usize::from(u16_at(head, 54)?), usize::from(u16_at(head, 56)?));
    for index in 0..count {
        if u32::from_le_bytes(array_at(head, offset.checked_add(index.checked_mul(size)?)?)?) == INTERPRETER {
            return Some(true);
        }
    }
    Some(false)
}

fn machine_of(architecture: &str) -> Option<u16> {
    match architecture {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        "riscv64" => Some(243),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array_at(bytes, offset).map(u16::from_le_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The head of a program with one program header.
    pub(in crate::program) fn program(header_kind: u32) -> Vec<u8> {
        let mut head = vec![0; 120];
        head[..4].copy_from_slice(MAGIC);
        head[4..6].copy_from_slice(CLASS_AND_ORDER);
        head[18..20].copy_from_slice(&machine_of(std::env::consts::ARCH).unwrap().to_le_bytes());
        head[32..40].copy_from_slice(&64_u64.to_le_bytes());
        head[54..56].copy_from_slice(&56_u16.to_le_bytes());
        head[56..58].copy_from_slice(&1_u16.to_le_bytes());
        head[64..68].copy_from_slice(&header_kind.to_le_bytes());
        head
    }

    fn changed(mut head: Vec<u8>, offset: usize, byte: u8) -> Vec<u8> {
        head[offset] = byte;
        head
    }

    #[test]
    fn program_that_is_dynamic_or_of_another_architecture_is_refused() {
        for (head, expected) in [
            (program(1), None),
            (program(INTERPRETER), Some("statically")),
            (changed(program(1), 18, 99), Some("another architecture")),
            (changed(program(1), 4, 1), Some("not a 64-bit")),
            (changed(program(1), 33, 0xff), Some("program headers")),
            (changed(program(1), 39, 0xff), Some("program headers")),
            (program(1)[..20].to_vec(), Some("program headers")),
            (b"#!/bin/sh".to_vec(), Some("not a 64-bit")),
            (Vec::new(), Some("not a 64-bit")),
        ] {
            let found = problem(&head);
            match expected {
                None => assert_eq!(found, None),
                Some(part) => {
                    assert!(found.as_ref().is_some_and(|found| found.contains(part)), "{found:?} {part}");
                }
            }
        }
    }

    #[test]
    fn dynamic_test_program_is_refused() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(
            problem(&program[..usize::try_from(HEAD).unwrap()])
                .is_some_and(|problem| problem.contains("statically"))
        );
    }
}
