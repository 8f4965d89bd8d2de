//! Functions that must work.

use std::fs;
use std::path::Path;

use super::child;
use super::observation::Observation;
use super::rights::find;

pub(super) fn tmp_writable() -> Observation {
    writable(Path::new("/tmp"))
}

pub(super) fn home_writable() -> Observation {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    // An image without users has no home folders; programs then use the root.
    writable(home.as_deref().map_or(Path::new("/"), Path::new))
}

/// Creates the folder if the image lacks it: a user who may create it can write there.
fn writable(folder: &Path) -> Observation {
    let path = folder.join("sandbox-verify-writable");
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, "written"))
        .and_then(|()| fs::read_to_string(&path));
    let _ = fs::remove_file(&path);
    match written {
        Ok(text) if text == "written" => {
            Observation::held(format!("wrote to {} and read it back", folder.display()))
        }
        Ok(_) => Observation::broken(format!("{} gave something else back", folder.display())),
        Err(error) => Observation::broken(format!("{}: {error}", folder.display())),
    }
}

pub(super) fn bash_available() -> Observation {
    answers("bash", &["-c", "echo $((40 + 2))"], "42")
}

pub(super) fn python_available() -> Observation {
    answers("python3", &["-c", "print(40 + 2)"], "42")
}

fn answers(name: &str, arguments: &[&str], expected: &str) -> Observation {
    let Some(path) = find(name) else {
        return Observation::broken(format!("the image has no {name}"));
    };
    match child::program(&path, arguments) {
        Ok(ended) if ended.code == Some(0) && ended.output == expected => {
            Observation::held(path.display().to_string())
        }
        Ok(ended) => Observation::broken(format!("{}: exit code {:?}", path.display(), ended.code)),
        Err(error) => Observation::broken(format!("{}: {error}", path.display())),
    }
}
