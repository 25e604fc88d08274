"""Telling and asking facts.

Markers: {my} {I} {me} {am} {have} {do} {s} follow the person, {v} is the value, {np} the noun.
"""

from __future__ import annotations

from training.phrases import phrases

NOUN_TELL = phrases(
    """
    {my} {np} is {v}.
    {my} {np} is {v}.
    {my} {np} is {v}.
    {v} is {my} {np}.
    {my} {np} happens to be {v}.
    {my} {np}: {v}.
    {my} {np} = {v}
    as for {my} {np}, it is {v}.
    as for {my} {np}, that's {v}.
    {my} {np} would be {v}.
    {my} {np}? it's {v}.
    {my} {np}? {v}.
    {my} {np} is now {v}.
    the {np} {I} {have} is {v}.
    {I} {have} {v} as {np}.
    {I} {have} a {np}, it is {v}.
    for {my} {np}, put down {v}.
    for {my} {np} write {v}.
    please remember that {my} {np} is {v}.
    remember that {my} {np} is {v}.
    remember this: {my} {np} is {v}.
    remember {my} {np}: {v}.
    can you remember that {my} {np} is {v}?
    note that {my} {np} is {v}.
    please note {my} {np}, it is {v}.
    don't forget, {my} {np} is {v}.
    don't forget that {my} {np} is {v}.
    keep in mind that {my} {np} is {v}.
    just so you know, {my} {np} is {v}.
    I want to tell you that {my} {np} is {v}.
    let me tell you {my} {np}: it's {v}.
    let me tell you something, {my} {np} is {v}.
    did you know that {my} {np} is {v}?
    I think {my} {np} is {v}.
    it is {v}, {my} {np} I mean.
    {my} {np}'s {v}.
    you should know {my} {np} is {v}.
    {v}, that is {my} {np}.
    please save {my} {np} as {v}.
    save this: {my} {np} is {v}.
    my notes say {my} {np} is {v}.
    """,
    """
    please keep {v} as {my} {np}.
    {my} {np}, by the way, is {v}.
    I'd like you to remember {v}; it's {my} {np}.
    {my} {np} has always been {v}.
    one thing about me: {my} {np} is {v}.
    please store that {my} {np} is {v}.
    here is {my} {np} for later: {v}.
    write down that {my} {np} is {v}.
    """,
)

NOUN_ASK = phrases(
    """
    what is {my} {np}?
    what is {my} {np}?
    what is {my} {np}?
    what's {my} {np}?
    what's {my} {np}?
    what was {my} {np}?
    what was {my} {np} again?
    what is {my} {np} again?
    which {np} {do} {I} have?
    which is {my} {np}?
    tell me {my} {np}.
    please tell me {my} {np}.
    can you tell me {my} {np}?
    could you tell me what {my} {np} is?
    can you tell me what {my} {np} is?
    do you know {my} {np}?
    do you know what {my} {np} is?
    do you remember {my} {np}?
    do you remember what {my} {np} is?
    do you still know {my} {np}?
    do you recall {my} {np}?
    remind me, what is {my} {np}?
    remind me of {my} {np}.
    can you remind me of {my} {np}?
    please remind me what {my} {np} is.
    I forgot {my} {np}. what is it?
    I forgot {my} {np}, can you help?
    I can't remember {my} {np}.
    what did I say {my} {np} was?
    what did I tell you about {my} {np}?
    and {my} {np}?
    {my} {np}?
    {my} {np} please
    {my} {np} is what?
    {my} {np} was what again?
    I need {my} {np}.
    I want to know {my} {np}.
    quick question: what is {my} {np}?
    say {my} {np}.
    give me {my} {np}.
    so what is {my} {np}?
    """,
    """
    would you mind telling me {my} {np}?
    any idea what {my} {np} is?
    help me out, what is {my} {np}?
    let me check: what is {my} {np}?
    I need to know what {my} {np} is.
    could you repeat {my} {np} for me?
    what do you have down as {my} {np}?
    earlier I mentioned {my} {np}. what is it?
    """,
)

NOUN_CHECK = phrases(
    """
    is {my} {np} {v}?
    is it true that {my} {np} is {v}?
    {my} {np} is {v}, right?
    isn't {my} {np} {v}?
    did I say {my} {np} is {v}?
    is {v} {my} {np}?
    so {my} {np} is {v}, correct?
    """,
    """
    am I right that {my} {np} is {v}?
    would you say {my} {np} is {v}?
    """,
)

NOUN_CHANGE = phrases(
    """
    actually, {my} {np} is {v}.
    actually {my} {np} is now {v}.
    sorry, {my} {np} is {v}, not {old}.
    {my} {np} is not {old} any more, it is {v}.
    I was wrong, {my} {np} is {v}.
    correction: {my} {np} is {v}.
    {my} {np} has changed to {v}.
    {my} {np} changed, it is {v} now.
    please change {my} {np} to {v}.
    update {my} {np} to {v}.
    no wait, {my} {np} is {v}.
    {my} new {np} is {v}.
    from now on {my} {np} is {v}.
    I made a mistake. {my} {np} is {v}.
    """,
    """
    scratch that, {my} {np} is {v}.
    let me correct myself: {my} {np} is {v}.
    """,
)

OPENERS = phrases(
    """
    hey,
    hi,
    ok,
    okay,
    well,
    so,
    by the way,
    also,
    and
    oh,
    now,
    listen,
    alright,
    right,
    hello,
    please,
    hmm,
    um,
    btw,
    anyway,
    one more thing,
    great,
    thanks,
    thank you.
    ok thanks.
    cool,
    lol
    haha
    ok so
    ok cool,
    hmm ok
    yeah,
    yep.
    nah,
    oh ok.
    great stuff.
    good to know.
    quick one:
    me again,
    sorry,
    """,
    """
    say,
    look,
    now then,
    """,
)

KNOWN_ACK = ("Got it. ", "Got it. ", "Okay. ")
NEUTRAL_ACK = (
    "Okay, I will remember that.",
    "Okay.",
    "Thank you, I will remember that.",
    "Noted.",
    "Got it.",
    "I see.",
    "Thank you for telling me.",
    "All right.",
    "Sure.",
)
MANY_ACK = "Thank you, I will remember all of that."
NOT_TOLD = "You have not told me that."
NOT_KNOWN = "I do not know that. I only know what you tell me here."
