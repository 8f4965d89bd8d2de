//! Refused and accepted Dockerfiles, and the rewritten text.

use super::*;

fn problem(text: &str) -> Option<String> {
    Confined::parse(text.as_bytes()).err().map(|error| error.to_string())
}

#[test]
fn ordinary_dockerfiles_pass() {
    for text in [
        "",
        "# only a comment\n",
        "FROM debian:bookworm\nRUN apt-get update && apt-get install -y --no-install-recommends bash curl\n",
        "\u{feff}from scratch\ncopy a b\nadd app.tar.gz /\n",
        "ARG VERSION=3.12\nFROM registry.example:5000/python:${VERSION}-slim@sha256:0f AS build\nFROM --platform=$BUILDPLATFORM x\nCOPY --from=build --chown=0:0 /a /b\n",
        "FROM a\r\nRUN one \\\r\n  && two\r\n",
        "FROM a\nRUN one \\\n    # a comment in between\n\n    && two \\  \n# another\n    three\nUSER 1000\n",
        "FROM a\nRUN [\"/bin/sh\", \"-c\", \"ls\"]\nADD [\"a b\", \"/c\"]\nADD --chown=1:1 x $HOME/\n",
        "FROM a\nRUN echo $((1 << 3)) && cat <<<\"text\" && echo '--network=host'\n",
        "# syntax=docker/dockerfile:1\n# escape=\\\nFROM a\nHEALTHCHECK NONE\nLABEL a=\"b\\\n  c\"\n",
    ] {
        assert_eq!(problem(text), None, "{text:?}");
    }
}

#[test]
fn instruction_that_leaves_the_sandbox_is_refused_with_its_line() {
    for (text, line, word) in [
        ("FROM a\nADD http://x/y /y\n", 2, "URL"),
        ("FROM a\nadd https://x/y.tar.gz /y\n", 2, "URL"),
        ("FROM a\nADD --chown=1 \\\n  \\\n# x\n  a http://x/y /y\n", 2, "URL"),
        ("FROM a\nADD [\"http://x/y\", \"/y\"]\n", 2, "URL"),
        ("FROM a\nADD git@github.com:a/b.git /y\n", 2, "URL"),
        ("FROM a\nADD github.com/a/b /y\n", 2, "URL"),
        ("FROM a\nENV U=http://x\nADD $U /y\n", 3, "URL"),
        ("FROM a\nADD --checksum=sha256:0f x /y\n", 2, "flag"),
        ("FROM a\nADD --keep-git-dir=true x /y\n", 2, "flag"),
        ("FROM a\nRUN --network=host curl x\n", 2, "flag"),
        ("FROM a\nRUN \\\n --mount=type=cache,target=/x ls\n", 2, "flag"),
        ("FROM a\nRUN --security=insecure ls\n", 2, "flag"),
        ("FROM a\nRUN\t--network=host ls\n", 2, "flag"),
        ("FROM a\nrun\u{a0}--network=host ls\n", 2, "not an instruction"),
        ("FROM a\nONBUILD RUN ls\n", 2, "ONBUILD"),
        ("FROM a\nRUN <<EOF\nADD http://x /y\nEOF\n", 2, "here-document"),
        ("FROM a\nRUN cat <<-'EOF' > /x\nEOF\n", 2, "here-document"),
        ("FROM a\nRUN 3<<EOF\nEOF\n", 2, "here-document"),
        ("FROM a\nCOPY <<EOF /x\nEOF\n", 2, "here-document"),
        ("FROM a\nAD\\\nD http://x /y\n", 2, "splits"),
        ("FROM a\nRUN x \\\\\nADD http://x /y\n", 2, "two backslashes"),
        ("# escape=`\nFROM a\nRUN x `\nADD http://x /y\n", 1, "escape"),
        ("# a\n#\tEscape = ` \nFROM a\n", 2, "escape"),
        ("FROM a\nRUN x\rADD http://x /y\n", 2, "carriage"),
        ("FROM a\nEOF\n", 2, "not an instruction"),
        ("FROM a\nINCLUDE x\n", 2, "not an instruction"),
        ("FROM oci-archive:/home/u/x.tar\n", 1, "not the name"),
        ("FROM dir:x\n", 1, "not the name"),
        ("FROM docker://x/y\n", 1, "not the name"),
        ("FROM /x\n", 1, "not the name"),
        ("ARG A=oci-arch\nARG B=ive:/x\nFROM $A${B}\n", 3, "not the name"),
        ("FROM ${A:-dir:/x}\n", 1, "variable"),
        ("FROM $UNKNOWN\n", 1, "variable"),
        ("FROM a\nCOPY --from=dir:/etc / /x\n", 2, "not the name"),
        ("FROM a\nRUN x\0y\n", 1, "NUL"),
    ] {
        let reported = problem(text).unwrap_or_else(|| panic!("{text:?} passes"));
        assert!(
            reported.contains(word) && reported.contains(&format!("line {line} ")),
            "{text:?}: {reported}"
        );
    }
    assert!(Confined::parse(b"FROM a\nRUN \xff\n").is_err());
}

#[test]
fn each_step_gets_the_folder_and_each_stage_the_variables() {
    let variables = BTreeMap::from([("A".to_owned(), "/t/a".to_owned()), ("B".to_owned(), ":/t".to_owned())]);
    let trust = StepTrust { name: "n", target: "/t", variables: &variables };
    let confined =
        Confined::parse(b"FROM a \\\n  AS b\n\n  run x \\\n# RUN no\n  RUN y\nRUN\\\n [\"z\"]\nFROM b")
            .unwrap();
    assert!(confined.has_steps());
    assert_eq!(
        confined.with(&trust),
        "FROM a \\\n  AS b\nARG A=/t/a B=:/t\n\n  run --mount=type=bind,from=n,target=/t x \\\n# RUN no\n  RUN y\n\
         RUN --mount=type=bind,from=n,target=/t\\\n [\"z\"]\nFROM b\nARG A=/t/a B=:/t\n"
    );
    assert!(!Confined::parse(b"FROM a\nCMD RUN\n").unwrap().has_steps());
}
