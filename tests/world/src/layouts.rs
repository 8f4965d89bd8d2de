//! Ten everyday projects, and a day of git, builds and edits in each.

/// What all begin with, in a repository that is still empty.
pub const FIRST_COMMIT: &str =
    "mkdir -p .git/info src && echo one > src/a && git add . && git commit -q -m first";

/// A project.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// What it is called.
    pub name: &'static str,
    /// What it has beside a commit of `src/a`; made by a shell in the work tree, a folder called
    /// `tree`.
    pub before: &'static str,
    /// What a shell does in it.
    pub day: &'static str,
}

/// The projects.
pub const LAYOUTS: [Layout; 10] = [
    Layout {
        name: "monorepo",
        before: "for p in a b c; do mkdir -p packages/$p/src && echo '{}' > packages/$p/package.json && echo $p > packages/$p/src/x; done; \
                 mkdir .github && mkdir .github/workflows && echo on: push > .github/workflows/ci.yml && git add . && git commit -qm packages",
        day: "git checkout -q -b topic; echo 1 >> packages/a/src/x; git mv packages/a/src/x packages/a/src/y; mv packages/b packages/renamed; rm -rf packages/c; git add -A; \
              git commit -qm work; git checkout -q main; git merge -q topic; git branch -d -q topic; git stash list; git gc -q",
    },
    Layout {
        name: "worktree",
        before: "git worktree add -q ../linked -b linked",
        day: "git worktree add -q w -b w; echo w > w/src/w; git -C w add .; git -C w commit -qm w; git worktree add -q gone -b gone; \
              git worktree remove gone; git merge -q w; git worktree list",
    },
    Layout {
        name: "hooks in the tree",
        before: "mkdir .githooks && printf '#!/bin/sh\\nexit 0\\n' > .githooks/pre-commit && chmod +x .githooks/pre-commit && \
                 git add . && git commit -qm hooks && git config core.hooksPath .githooks",
        day: "echo 2 >> src/a; git commit -qam two; git checkout -q -b t; echo 3 >> src/a; git commit -qam three; git rebase -q main; \
              git worktree add -q w; rm -rf src/b",
    },
    Layout {
        name: "settings of an editor",
        before: "mkdir .vscode && echo '{}' > .vscode/settings.json && git add . && git commit -qm settings",
        day: "git checkout -q -b t; echo 2 >> src/a; git commit -qam two; git checkout -q main; git cherry-pick t >/dev/null; git worktree add -q w t",
    },
    Layout {
        name: "containers",
        before: "echo 'services: {}' > docker-compose.yml && echo A=1 > .env && echo FROM scratch > Dockerfile && git add . && git commit -qm c",
        day: "echo B=2 >> .env; echo '# more' >> docker-compose.yml; echo RUN true >> Dockerfile; git commit -qam more",
    },
    Layout {
        name: "Rust",
        before: "mkdir .cargo && echo '[build]' > .cargo/config.toml && echo '[toolchain]' > rust-toolchain.toml && echo '[package]' > Cargo.toml && \
                 echo target > .gitignore && git add . && git commit -qm crate",
        day: "mkdir -p target/debug/deps target/debug/build/x-1/out target/debug/.fingerprint/x; for i in $(seq 200); do echo $i > target/debug/deps/x-$i.o; done; \
              cp /bin/true target/debug/x; ln target/debug/x target/debug/deps/x; echo y >> Cargo.toml; echo x > Cargo.lock; git add .; git commit -qm dep; \
              rm -rf target",
    },
    Layout {
        name: "Node",
        before: "echo '{}' > package.json && echo save-exact=true > .npmrc && echo node_modules > .gitignore && git add . && git commit -qm p",
        day: "for i in $(seq 60); do mkdir -p node_modules/p$i/.github/workflows node_modules/p$i/.vscode node_modules/p$i/bin; \
              echo '{}' > node_modules/p$i/package.json; echo x > node_modules/p$i/.npmrc; echo x > node_modules/p$i/.vscode/settings.json; \
              echo x > node_modules/p$i/.envrc; echo x > node_modules/p$i/bin/x; done; mkdir node_modules/.bin; ln -s ../p1/bin/x node_modules/.bin/p1; \
              echo '{}' > package-lock.json; git add .; git commit -qm lock; rm -rf node_modules/p1",
    },
    Layout {
        name: "Python",
        before: "mkdir -p .venv/bin .venv/lib/python3.12/site-packages && echo home = /usr/bin > .venv/pyvenv.cfg && echo .venv > .gitignore && \
                 ln -s /usr/bin/python3 .venv/bin/python && git add . && git commit -qm venv",
        day: "mkdir -p .venv/lib/python3.12/site-packages/requests/__pycache__ src/__pycache__; echo x > .venv/lib/python3.12/site-packages/requests/__init__.py; \
              printf '#!/bin/sh\\n' > .venv/bin/pytest; chmod +x .venv/bin/pytest; echo x > src/__pycache__/a.pyc; echo x > src/a.py; git add src/a.py; git commit -qm a",
    },
    Layout {
        name: "Go",
        before: "echo module x > go.mod && mkdir -p vendor/github.com/y && echo package y > vendor/github.com/y/y.go && git add . && git commit -qm m",
        day: "mkdir -p vendor/github.com/z/.github/workflows vendor/github.com/z/.vscode; echo x > vendor/github.com/z/.github/workflows/ci.yml; \
              echo x > vendor/github.com/z/.vscode/settings.json; echo package z > vendor/github.com/z/z.go; echo z >> go.mod; echo h > go.sum; \
              git add .; git commit -qm vendor; rm -rf vendor/github.com/y; git commit -qam gone",
    },
    Layout {
        name: "submodules",
        before: "git init -q -b main ../lib && cd ../lib && echo 1 > l && git add l && git commit -qm l && cd ../tree && \
                 git -c protocol.file.allow=always submodule add -q ../lib lib && git commit -qm lib",
        day: "cd lib; echo 2 >> l; git commit -qam two; cd ..; git add lib; git commit -qm update; git submodule status; git submodule foreach -q true; \
              git clone -q . clone; git clone -q --bare . bare.git; git init -q new",
    },
];
