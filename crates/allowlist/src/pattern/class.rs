//! Character classes: `[abc]`, `[a-z]`, `[!a]`.
//!
//! Parsing follows Python's `fnmatch.translate` step by step, including its corner cases, because
//! policies written for tools based on it must have the same meaning here.

/// One `[…]` of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Class {
    negated: bool,
    /// Inclusive ranges; a single character is a range of one.
    ranges: Vec<(char, char)>,
}

/// A character of the class body, or the hyphen of a range.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Character(char),
    Hyphen,
}

impl Class {
    /// Parses a class from the text after its `[`; also returns its number of characters, including
    /// the `]`.
    ///
    /// `None` if the bracket is not closed, and so is an ordinary character.
    pub(super) fn parse(after_bracket: &[char]) -> Option<(Self, usize)> {
        let mut lead = usize::from(after_bracket.first() == Some(&'!'));
        lead += usize::from(after_bracket.get(lead) == Some(&']'));
        let close = lead + after_bracket.get(lead..)?.iter().position(|c| *c == ']')?;
        let body = after_bracket.get(..close)?;
        Some((Self::from_parts(&parts(body)), close + 1))
    }

    /// Whether the class contains `character`.
    pub(crate) fn matches(&self, character: char) -> bool {
        let listed = self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
        listed != self.negated
    }

    /// The inclusive ranges that it lists.
    pub(super) fn ranges(&self) -> &[(char, char)] {
        &self.ranges
    }

    /// The characters at the ends of the ranges.
    pub(super) fn edges(&self) -> impl Iterator<Item = char> + '_ {
        self.ranges.iter().flat_map(|(low, high)| [*low, *high])
    }

    fn from_parts(parts: &[Part]) -> Self {
        let negated = parts.first() == Some(&Part::Character('!'));
        let mut rest = parts.get(usize::from(negated)..).unwrap_or_default();
        let mut ranges = Vec::new();
        loop {
            match rest {
                [] => break,
                [Part::Character(low), Part::Hyphen, Part::Character(high), tail @ ..] => {
                    ranges.push((*low, *high));
                    rest = tail;
                }
                [Part::Character(single), tail @ ..] => {
                    ranges.push((*single, *single));
                    rest = tail;
                }
                [Part::Hyphen, tail @ ..] => {
                    ranges.push(('-', '-'));
                    rest = tail;
                }
            }
        }
        Self { negated, ranges }
    }
}

/// Finds the hyphens of ranges and drops reversed ranges.
fn parts(body: &[char]) -> Vec<Part> {
    let mut chunks = chunks(body);
    // From the end, so that the rest of a dropped range is compared with the chunk before it.
    for right in (1..chunks.len()).rev() {
        let reversed =
            match (chunks.get(right - 1).and_then(|c| c.last()), chunks.get(right).and_then(|c| c.first())) {
                (Some(low), Some(high)) => low > high,
                _ => false,
            };
        if reversed {
            let dropped = chunks.remove(right);
            if let Some(left) = chunks.get_mut(right - 1) {
                left.pop();
                left.extend(dropped.into_iter().skip(1));
            }
        }
    }
    let mut parts = Vec::new();
    for (index, chunk) in chunks.into_iter().enumerate() {
        if index > 0 {
            parts.push(Part::Hyphen);
        }
        parts.extend(chunk.into_iter().map(Part::Character));
    }
    parts
}

/// Splits the body at the hyphens between the two characters of a range.
fn chunks(body: &[char]) -> Vec<Vec<char>> {
    let mut chunks: Vec<Vec<char>> = Vec::new();
    let mut start = 0;
    let mut search_from = if body.first() == Some(&'!') { 2 } else { 1 };
    while let Some(found) = body.get(search_from..).and_then(|rest| rest.iter().position(|c| *c == '-')) {
        let hyphen = search_from + found;
        chunks.push(body.get(start..hyphen).unwrap_or_default().to_vec());
        start = hyphen + 1;
        search_from = hyphen + 3;
    }
    let rest = body.get(start..).unwrap_or_default();
    match chunks.last_mut() {
        Some(last) if rest.is_empty() => last.push('-'),
        _ => chunks.push(rest.to_vec()),
    }
    chunks
}
/// A part of a pattern that matches exactly one character.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Token {
    /// Itself.
    Literal(char),
    /// `?`.
    Any,
    /// `[…]`.
    Class(Class),
}

impl Token {
    pub(crate) fn matches(&self, character: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == character,
            Self::Any => true,
            Self::Class(class) => class.matches(character),
        }
    }
}
