//! Modules that use each other in a circle: none of them can be read, tested or moved without the
//! others.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Finding, Source};

/// The path of a module, starting at the folder of its crate.
type Module<'a> = Vec<&'a str>;

/// Compares the modules of each folder with each other.
pub(crate) fn check_circles(sources: &[Source]) -> Vec<Finding> {
    let is_ours = |source: &&Source| source.is_rust() && source.path.contains("/src/") && !source.is_test();
    let all: BTreeMap<Module<'_>, &Source> = sources.iter().filter(is_ours).map(|s| (module(s), s)).collect();
    let tests: Vec<Module<'_>> = all.iter().flat_map(|(module, source)| tests_in(module, source)).collect();
    let mut graph: BTreeMap<Module<'_>, BTreeSet<Module<'_>>> = BTreeMap::new();
    for (user, source) in all.iter().filter(|(user, _)| !tests.iter().any(|test| user.starts_with(test))) {
        for used in uses(user, source) {
            let shared = user.iter().zip(&used).take_while(|(a, b)| a == b).count();
            let pair = (user.get(..=shared), used.get(..=shared));
            if let (Some(user), Some(used)) = pair
                && all.keys().any(|module| module.starts_with(used))
            {
                graph.entry(user.to_vec()).or_default().insert(used.to_vec());
            }
        }
    }
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for module in graph.keys().filter(|module| leads_back(&graph, module)) {
        let folder = module.split_last().map(|(_, folder)| folder.join("/"));
        *found.entry(folder.unwrap_or_default()).or_default() += 1;
    }
    let message = |count| format!("{count} modules use each other in circles");
    found.into_iter().map(|(folder, count)| Finding::whole(&folder, message(count))).collect()
}

fn module(source: &Source) -> Module<'_> {
    let names = source.path.trim_end_matches(".rs").split('/');
    names.filter(|name| !["lib", "main", "mod", "src"].contains(name)).collect()
}

/// The modules that exist only in tests and fuzzers.
fn tests_in<'a>(parent: &[&'a str], source: &'a Source) -> Vec<Module<'a>> {
    let lines = source.text.lines().zip(source.text.lines().skip(1));
    let tests = lines.filter(|(above, _)| above.starts_with("#[cfg(") && above.contains("test"));
    let names =
        tests.filter_map(|(_, line)| line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    names.map(|name| [parent, &[name]].concat()).collect()
}

/// All paths into its own crate that `source` uses outside of tests.
fn uses<'a>(module: &[&'a str], source: &'a Source) -> Vec<Module<'a>> {
    let program = source.text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let krate = if module.first() == Some(&"crates") { 2 } else { 1 };
    let mut used = Vec::new();
    for (start, root) in ["crate::", "super::"].iter().flat_map(|root| program.match_indices(root)) {
        let (before, mut rest) = program.split_at(start);
        let line = before.rsplit('\n').next().unwrap_or_default();
        if line.contains("//") || line.ends_with(is_name) {
            continue;
        }
        let mut at = module.to_vec();
        if root == "crate::" {
            at.truncate(krate);
            rest = rest.strip_prefix(root).unwrap_or_default();
        }
        while let Some(after) = rest.strip_prefix("super::") {
            at.pop();
            rest = after;
        }
        let (path, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        at.extend(path.split("::").filter(|name| !name.is_empty()));
        let group = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        used.extend(
            group
                .split(',')
                .map(|item| [&*at, &[item.trim().split("::").next().unwrap_or_default()]].concat()),
        );
        used.push(at);
    }
    used
}

fn leads_back(graph: &BTreeMap<Module<'_>, BTreeSet<Module<'_>>>, from: &Module<'_>) -> bool {
    let (mut seen, mut pending) = (BTreeSet::new(), vec![from]);
    while let Some(module) = pending.pop() {
        let used = graph.get(module).into_iter().flatten();
        pending.extend(used.filter(|module| seen.insert(*module)));
    }
    seen.contains(from)
}

#[cfg(test)]
mod tests {
    use super::super::source::source;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| source(&format!("crates/x/src/{path}.rs"), text)).collect();
        let all = check_circles(&sources).into_iter().map(|finding| finding.to_string());
        all.filter(|text| text.starts_with("crates/x")).collect()
    }

    #[test]
    fn circle_is_found_in_every_spelling_and_folder() {
        for (a, b) in [
            ("use crate::b::X;", "use super::a::Y;"),
            ("use crate::{\n    c::Z,\n    b::{self, X},\n};", "fn f() { crate::a::g() }"),
        ] {
            let found = found(&[("a", a), ("b", b), ("c", "")]);
            assert!(matches!(found.as_slice(), [one] if one.contains("crates/x: 2 modules")), "{found:?}");
        }
        let inner = [
            ("f/mod", "mod a;\nmod b;\npub use a::X;"),
            ("f/a", "use super::b::X;"),
            ("f/b", "use crate::f::a::Y;"),
        ];
        assert!(found(&inner)[0].contains("crates/x/f: 2 modules"));
        let long = [
            ("a", "use crate::b::X;"),
            ("b/mod", ""),
            ("b/d", "use super::super::c::X;"),
            ("c", "use crate::a::X;"),
        ];
        assert!(found(&long)[0].contains("3 modules"));
    }

    #[test]
    fn uses_in_tests_and_comments_are_ignored() {
        let a = ("a", "use crate::b::X;");
        for b in ["// crate::a", "\n#[cfg(test)]\nuse crate::a::X;", "let x = other_crate::a;"] {
            assert_eq!(found(&[a, ("b", b)]), Vec::<String>::new(), "{b}");
        }
        let helper = [a, ("b", "#[cfg(test)]\nmod helper;"), ("b/helper", "use crate::a::X;")];
        assert_eq!(found(&helper), Vec::<String>::new());
    }
}
