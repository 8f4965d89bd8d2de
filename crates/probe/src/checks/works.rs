//! What has to work.

use std::fs;
use std::path::Path;

use sandbox_verify_probe::Order;

use super::rights::find;
use crate::check::Check;
use crate::child;
use crate::seen::Seen;

pub(super) const CHECKS: &[Check] = &[
    ("tmp_writable", tmp_writable),
    ("home_writable", home_writable),
    ("bash_available", bash_available),
    ("python_available", python_available),
];

fn tmp_writable(_: &Order) -> Seen {
    writable(Path::new("/tmp"))
}

fn home_writable(_: &Order) -> Seen {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    // An image that knows no users has no home for them either; programs take the root then.
    writable(home.as_deref().map_or(Path::new("/"), Path::new))
}

/// A folder that the image lacks is made: who may write has a way.
fn writable(folder: &Path) -> Seen {
    let path = folder.join("sandbox-verify-writable");
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, "written"))
        .and_then(|()| fs::read_to_string(&path));
    let _ = fs::remove_file(&path);
    match written {
        Ok(text) if text == "written" => {
            Seen::held(format!("wrote to {} and read it back", folder.display()))
        }
        Ok(_) => Seen::broken(format!("{} gave something else back", folder.display())),
        Err(error) => Seen::broken(format!("{}: {error}", folder.display())),
    }
}

fn bash_available(_: &Order) -> Seen {
    answers("bash", &["-c", "echo $((40 + 2))"], "42")
}

fn python_available(_: &Order) -> Seen {
    answers("python3", &["-c", "print(40 + 2)"], "42")
}

fn answers(name: &str, arguments: &[&str], expected: &str) -> Seen {
    let Some(path) = find(name) else {
        return Seen::broken(format!("the image has no {name}"));
    };
    match child::program(&path, arguments) {
        Ok(ended) if ended.code == Some(0) && ended.output == expected => {
            Seen::held(path.display().to_string())
        }
        Ok(ended) => Seen::broken(format!("{}: exit code {:?}", path.display(), ended.code)),
        Err(error) => Seen::broken(format!("{}: {error}", path.display())),
    }
}
