//! All patterns that decisions compare a text with, as one automaton: for each set of patterns that
//! some text matches, it finds such a text.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::rc::Rc;

use super::class::Token;
use super::compile::Pattern;
use super::matcher::Tables;
use super::matcher::WORD;
use super::matcher::advance;
use super::matcher::is_set;
use super::matcher::set;
use super::reach::Language;

/// The part of a text that a pattern is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// All of it.
    Whole,
    /// Up to the first `?`.
    Path,
    /// All of it, if it has no `?`.
    Plain,
    /// After the first `?`, if there is one.
    Query,
}

/// The tokens of a pattern, and for each and for the end whether a `*` precedes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sequence {
    tokens: Vec<Token>,
    stars: Vec<bool>,
}

/// The patterns as one automaton. A state has the bits of all of them, one after the other: the last
/// bit of a pattern never moves on, so none carries over into the next.
pub(crate) struct Product {
    /// One of each set of characters that no pattern distinguishes.
    symbols: Vec<char>,
    /// For each symbol, the tokens that match it.
    hits: Vec<Vec<u64>>,
    stars: Vec<u64>,
    /// The state of no text, without patterns for queries.
    start: Vec<u64>,
    /// The bits of patterns for all of a text.
    whole: Vec<u64>,
    /// The last bits of patterns for paths, which stay set in the query.
    paths: Vec<u64>,
    /// The first bits of patterns for queries.
    queries: Vec<u64>,
    /// The last bits of all patterns.
    ends: Vec<u64>,
    /// The first and the last bit of patterns that end in `*`: nothing else matters after the last.
    open: Vec<(usize, usize)>,
    /// The last bit of the pattern that matches each text with a query.
    query: usize,
}

/// The work that may still be done, in words of states.
#[derive(Clone, Debug)]
pub(crate) struct Effort(Rc<Cell<usize>>);

/// A text, as its last character and what precedes it.
struct Node<S> {
    before: usize,
    last: char,
    state: S,
    bits: Rc<[u64]>,
}

impl Sequence {
    pub(crate) fn of(pattern: &Pattern) -> Self {
        Self { tokens: pattern.tokens.clone(), stars: pattern.stars.clone() }
    }

    pub(crate) fn compile(text: &str) -> Self {
        Self::of(&Pattern::compile(text))
    }

    /// Followed by these characters.
    pub(crate) fn then(&self, end: &str) -> Self {
        let mut longer = self.clone();
        longer.tokens.extend(end.chars().map(Token::Literal));
        longer.stars.resize(longer.tokens.len() + 1, false);
        longer
    }

    /// Together they match the texts that this matches when `end` follows them.
    pub(crate) fn before(&self, end: &str) -> Vec<Self> {
        let before = |at: usize| {
            let (tokens, rest) = self.tokens.split_at_checked(at)?;
            let (stars, rest_stars) = (self.stars.get(..=at)?, self.stars.get(at..)?);
            let before = Self { tokens: tokens.to_vec(), stars: stars.to_vec() };
            let open = rest_stars.last() == Some(&true);
            Tables::new(rest, rest_stars, false).match_text(rest, open, end).then_some(before)
        };
        let length = self.tokens.len();
        (length.saturating_sub(end.len())..=length).filter_map(before).collect()
    }
}

impl Effort {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Rc::new(Cell::new(limit)))
    }

    /// Whether so much was left.
    pub(crate) fn spend(&self, amount: usize) -> bool {
        let rest = self.0.get().checked_sub(amount);
        self.0.set(rest.unwrap_or_default());
        rest.is_some()
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl Product {
    /// The work of [`new`](Self::new) for `patterns`.
    pub(crate) fn cost(patterns: &[(Sequence, Scope)]) -> usize {
        let length = |token: &Token| match token {
            Token::Class(class) => 1 + class.ranges().len(),
            Token::Any | Token::Literal(_) => 1,
        };
        let of = |(sequence, _): &(Sequence, Scope)| 1 + sequence.tokens.iter().map(length).sum::<usize>();
        let tokens: usize = patterns.iter().map(of).sum();
        tokens.saturating_add(20).saturating_mul(tokens) / 4
    }

    /// The automaton of `patterns`, in which each range of `special` characters differs from all others.
    pub(crate) fn new(patterns: &[(Sequence, Scope)], special: impl Iterator<Item = (char, char)>) -> Self {
        let query = (Sequence::compile("*[?]*"), Scope::Whole);
        let patterns = || patterns.iter().chain([&query]);
        let special: Vec<(char, char)> = special.collect();
        let symbols = symbols(patterns().flat_map(|(sequence, _)| &sequence.tokens), &special);
        let bits: usize = patterns().map(|(sequence, _)| sequence.stars.len()).sum();
        let none = vec![0; bits.div_ceil(WORD)];
        let mut product = Self {
            hits: vec![none.clone(); symbols.len()],
            symbols,
            stars: none.clone(),
            start: none.clone(),
            whole: none.clone(),
            paths: none.clone(),
            queries: none.clone(),
            ends: none,
            open: Vec::new(),
            query: bits.saturating_sub(1),
        };
        let mut first = 0;
        for (sequence, scope) in patterns() {
            product.add(sequence, *scope, first);
            first += sequence.stars.len();
        }
        product.merge(&special);
        product
    }

    /// Keeps one of the symbols that no pattern distinguishes and that are not special.
    fn merge(&mut self, special: &[(char, char)]) {
        let is_special = |symbol: char| special.iter().any(|(low, high)| (*low..=*high).contains(&symbol));
        let mut known: HashSet<Vec<u64>> = HashSet::new();
        let symbols = std::mem::take(&mut self.symbols).into_iter().zip(std::mem::take(&mut self.hits));
        (self.symbols, self.hits) =
            symbols.filter(|(symbol, hits)| is_special(*symbol) || known.insert(hits.clone())).unzip();
    }

    fn add(&mut self, sequence: &Sequence, scope: Scope, first: usize) {
        let last = first + sequence.tokens.len();
        for (symbol, hits) in self.symbols.iter().zip(&mut self.hits) {
            for (at, _) in sequence.tokens.iter().enumerate().filter(|(_, token)| token.matches(*symbol)) {
                set(hits, first + at);
            }
        }
        for (at, _) in sequence.stars.iter().enumerate().filter(|(_, star)| **star) {
            set(&mut self.stars, first + at);
        }
        set(&mut self.ends, last);
        if sequence.stars.last() == Some(&true) {
            self.open.push((first, last));
        }
        match scope {
            Scope::Whole => (first..=last).for_each(|bit| set(&mut self.whole, bit)),
            Scope::Path => set(&mut self.paths, last),
            Scope::Plain => {}
            Scope::Query => set(&mut self.queries, first),
        }
        if scope != Scope::Query {
            set(&mut self.start, first);
        }
    }

    /// Calls `visit` for the shortest text of `language` in each state, with the patterns that it
    /// matches, until it breaks or the `effort` is spent. Texts whose beginnings can no longer
    /// match any pattern of `needed` are left out, if there is such a set.
    pub(crate) fn explore<L: Language>(
        &self,
        language: &L,
        needed: Option<&[u64]>,
        effort: &Effort,
        mut visit: impl FnMut(&[u64], &dyn Fn() -> String) -> ControlFlow<()>,
    ) {
        let start: Rc<[u64]> = self.start.as_slice().into();
        let mut nodes = vec![Node { before: 0, last: ' ', state: language.start(), bits: Rc::clone(&start) }];
        let mut seen: HashMap<L::State, HashSet<Rc<[u64]>>> = HashMap::new();
        seen.entry(language.start()).or_default().insert(start);
        let mut next = Vec::new();
        let mut at = 0;
        while let Some(Node { state, bits, .. }) = nodes.get(at) {
            let (state, bits) = (*state, Rc::clone(bits));
            if language.accepts(state) && visit(&masked(&bits, &self.ends), &|| text(&nodes, at)).is_break() {
                return;
            }
            if !effort.spend(self.symbols.len() * (self.stars.len() + self.open.len() + 8)) {
                return;
            }
            for (symbol, hits) in self.symbols.iter().zip(&self.hits) {
                let Some(state) = language.step(state, *symbol) else { continue };
                self.step(&bits, *symbol, hits, &mut next);
                if needed.is_some_and(|needed| needed.iter().zip(&next).all(|(one, two)| one & two == 0)) {
                    continue;
                }
                let seen = seen.entry(state).or_default();
                if !seen.contains(next.as_slice()) {
                    // Its memory is bounded, too.
                    if !effort.spend(64 + next.len()) {
                        return;
                    }
                    let bits: Rc<[u64]> = next.as_slice().into();
                    seen.insert(Rc::clone(&bits));
                    nodes.push(Node { before: at, last: *symbol, state, bits });
                }
            }
            at += 1;
        }
    }

    fn step(&self, bits: &[u64], symbol: char, hits: &[u64], next: &mut Vec<u64>) {
        let in_query = is_set(bits, self.query);
        let begins_query = symbol == '?' && !in_query;
        next.clear();
        next.extend_from_slice(bits);
        if begins_query {
            next.iter_mut().zip(&self.whole).for_each(|(word, mask)| *word &= mask);
        }
        advance(next, hits, &self.stars);
        if in_query || begins_query {
            let stay = bits.iter().zip(&self.paths).map(|(word, mask)| word & mask);
            next.iter_mut().zip(stay).for_each(|(word, more)| *word |= more);
        }
        if begins_query {
            next.iter_mut().zip(&self.queries).for_each(|(word, more)| *word |= more);
        }
        for (first, last) in &self.open {
            if is_set(next, *last) {
                (*first..*last).for_each(|bit| clear(next, bit));
            }
        }
    }

    /// The bits of those of `patterns`, in the order given to [`new`](Self::new), that `is_needed` selects by index.
    pub(crate) fn bits_of(
        &self,
        patterns: &[(Sequence, Scope)],
        is_needed: impl Fn(usize) -> bool,
    ) -> Vec<u64> {
        let mut bits = vec![0; self.stars.len()];
        let mut first = 0;
        for (index, (sequence, _)) in patterns.iter().enumerate() {
            let next = first + sequence.stars.len();
            if is_needed(index) {
                (first..next).for_each(|bit| set(&mut bits, bit));
            }
            first = next;
        }
        bits
    }
}

fn text<S>(nodes: &[Node<S>], mut at: usize) -> String {
    let mut characters = Vec::new();
    while let Some(node) = nodes.get(at).filter(|_| at > 0) {
        characters.push(node.last);
        at = node.before;
    }
    characters.into_iter().rev().collect()
}

fn masked(bits: &[u64], mask: &[u64]) -> Vec<u64> {
    bits.iter().zip(mask).map(|(word, mask)| word & mask).collect()
}

fn clear(bits: &mut [u64], bit: usize) {
    if let Some(word) = bits.get_mut(bit / WORD) {
        *word &= !(1 << (bit % WORD));
    }
}

/// One of each set of characters between which neither `tokens` nor `special` distinguish; letters
/// first, for the sake of examples.
fn symbols<'a>(tokens: impl Iterator<Item = &'a Token>, special: &[(char, char)]) -> Vec<char> {
    let mut begins = BTreeSet::from([0]);
    let mut add = |low: char, high: char| begins.extend([u32::from(low), u32::from(high) + 1]);
    for (low, high) in special {
        add(*low, *high);
    }
    for token in tokens {
        match token {
            Token::Literal(literal) => add(*literal, *literal),
            Token::Any => {}
            Token::Class(class) => class.ranges().iter().for_each(|(low, high)| add(*low, *high)),
        }
    }
    let ends = begins.iter().skip(1).copied().chain([u32::from(char::MAX) + 1]);
    let nicest = |(begin, end): (&u32, u32)| {
        let range = *begin..end;
        let nice = ('a'..='z').chain('0'..='9').find(|nice| range.contains(&u32::from(*nice)));
        nice.or_else(|| range.into_iter().find_map(char::from_u32))
    };
    let mut symbols: Vec<char> = begins.iter().zip(ends).filter_map(nicest).collect();
    symbols.sort_by_key(|symbol| (!symbol.is_ascii_lowercase(), !symbol.is_ascii_graphic(), *symbol));
    symbols
}
