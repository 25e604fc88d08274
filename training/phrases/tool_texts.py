"""Material for random tools: verbs, nouns, parameters, how a user asks for a call, what results look like."""

from __future__ import annotations

from training.phrases import phrases

# function-name verb, how a description starts, how a user says it
VERBS = tuple(
    tuple(part.split("/"))
    for part in """get/Get/get|find/Find/find|search/Search/search for|book/Book/book|order/Order/order|send/Send/send
    |create/Create/create|add/Add/add|delete/Delete/delete|set/Set/set|start/Start/start|stop/Stop/stop
    |check/Check/check|show/Show/show me|read/Read/read|write/Write/write|open/Open/open|close/Close/close
    |list/List/list|update/Update/update|cancel/Cancel/cancel|play/Play/play|buy/Buy/buy|pay/Pay/pay
    |turn_on/Turn on/turn on|turn_off/Turn off/turn off|look_up/Look up/look up|calculate/Calculate/calculate
    |convert/Convert/convert|translate/Translate/translate|schedule/Schedule/schedule|reserve/Reserve/reserve
    |move/Move/move|print/Print/print|save/Save/save|count/Count/count|fetch/Fetch/fetch|measure/Measure/measure
    |lock/Lock/lock|track/Track/track|rename/Rename/rename|share/Share/share|make/Make/make|remove/Remove/remove
    |query/Query/query|lookup/Look up/look up|submit/Submit/submit|report/Report/report""".replace("\n    ", "").split(
        "|"
    )
)
NOUNS = tuple(
    """weather|forecast|ticket|table|room|flight|train|message|email|note|timer|alarm|reminder|event|meeting|song
    |playlist|light|lamp|heating|door|window|order|pizza|taxi|car|bike|book|file|folder|photo|report|invoice
    |payment|price|stock|news|recipe|route|distance|map|contact|phone number|address|calendar|task|shopping list
    |parcel|package|letter|document|user|account|balance|score|game|movie|hotel|restaurant|doctor|appointment
    |lesson|course|exchange rate|currency|temperature|sensor|camera|printer|robot|plant|pet|bus|ferry|number|word
    |sentence|text|unit|date|time|holiday|tax|sum|total|product|item|review|rating|delivery|status|server|backup
    |log|database|record|customer|team|player""".replace("\n    ", "").split("|")
)
VERBS_HELD_OUT = (
    ("dispatch", "Dispatch", "dispatch"),
    ("inspect", "Inspect", "inspect"),
    ("summon", "Summon", "summon"),
    ("archive", "Archive", "archive"),
    ("assemble", "Assemble", "assemble"),
    ("verify", "Verify", "verify"),
    ("polish", "Polish", "polish"),
    ("obtain", "Obtain", "obtain"),
)
NOUNS_HELD_OUT = (
    "drone",
    "greenhouse",
    "telescope",
    "voucher",
    "canoe",
    "barometer",
    "pendulum",
    "warehouse",
    "beacon",
    "sculpture",
    "tram",
    "locksmith",
)

# parameter name, value kind, description, ways a user says the value in passing ({v})
PARAMS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("city", "place", "The city", ("in {v}", "in {v}", "in the city of {v}", "for {v}", "for the city {v}")),
    ("location", "place", "The place", ("in {v}", "at {v}", "near {v}", "for {v}")),
    ("place", "place", "Name of the place", ("in {v}", "at {v}", "for {v}")),
    ("destination", "place", "Where to go", ("to {v}", "going to {v}", "with destination {v}")),
    ("origin", "place", "Where to start", ("from {v}", "starting in {v}", "starting from {v}")),
    ("from_city", "place", "City of departure", ("from {v}", "leaving from {v}")),
    ("to_city", "place", "City of arrival", ("to {v}", "arriving in {v}")),
    ("country", "place", "The country", ("in {v}", "for {v}", "in the country {v}")),
    ("name", "name", "The name", ("for {v}", "named {v}", "called {v}", "with the name {v}")),
    ("person", "name", "Name of the person", ("for {v}", "of {v}", "with {v}")),
    ("recipient", "name", "Who receives it", ("to {v}", "for {v}")),
    ("contact", "name", "Name of the contact", ("for {v}", "of {v}", "to {v}")),
    ("user", "name", "The user's name", ("for {v}", "for user {v}", "for the user {v}")),
    ("author", "name", "Name of the author", ("by {v}", "from {v}")),
    ("artist", "name", "Name of the artist", ("by {v}", "from {v}")),
    ("title", "title", "The title", ('titled "{v}"', "called {v}", "with the title {v}", "named {v}")),
    ("query", "phrase", "What to search", ('"{v}"', "about {v}", "for {v}", "with the query {v}")),
    (
        "text",
        "phrase",
        "The text",
        ('"{v}"', "saying {v}", "with the text {v}", 'with the text "{v}"', "that says {v}"),
    ),
    (
        "message",
        "phrase",
        "The message text",
        ('"{v}"', "saying {v}", 'with the message "{v}"', "that says {v}", "with the words {v}"),
    ),
    ("subject", "phrase", "The subject line", ("about {v}", "with the subject {v}", 'with subject "{v}"')),
    ("note", "phrase", "A note", ("with the note {v}", 'with the note "{v}"')),
    ("topic", "oneword", "The topic", ("about {v}", "on {v}", "on the topic {v}")),
    ("item", "oneword", "The item", ("of {v}", "for {v}", "with {v}", "for the item {v}")),
    ("product", "oneword", "The product", ("for {v}", "of {v}", "for the product {v}")),
    ("word", "oneword", "The word", ("for {v}", 'for the word "{v}"', "for the word {v}")),
    ("category", "oneword", "The category", ("in the category {v}", "from {v}", "of the kind {v}")),
    ("symbol", "symbol", "Short symbol", ("for {v}", "of {v}", "with the symbol {v}")),
    ("id", "code", "The id", ("{v}", "with id {v}", "with the id {v}", "number {v}")),
    ("code", "code", "The code", ("with code {v}", "with the code {v}", "using code {v}")),
    ("order_id", "code", "Id of the order", ("with order id {v}", "for order {v}", "of order {v}")),
    ("room", "code", "The room", ("in room {v}", "for room {v}")),
    ("date", "date", "The date", ("on {v}", "for {v}", "on the date {v}")),
    ("day", "weekday", "Day of the week", ("on {v}", "for {v}", "this {v}", "next {v}")),
    ("time", "time", "The time", ("at {v}", "for {v}", "at the time {v}")),
    ("start_time", "time", "When it starts", ("starting at {v}", "from {v}", "with the start at {v}")),
    ("kickoff", "time", "Time of the kickoff", ("kicking off at {v}", "with the kickoff at {v}")),
    ("pickup", "time", "When it is picked up", ("picking up at {v}", "with pickup at {v}", "to pick up at {v}")),
    ("setout", "time", "When to set out", ("setting out at {v}", "set to go at {v}", "with the setout at {v}")),
    ("closing", "time", "When it closes", ("closing down at {v}", "going to close at {v}", "shut at {v}")),
    ("handover", "time", "When it is handed over", ("handing over at {v}", "with a handover at {v}")),
    ("depth", "number", "Depth in metres", ("going down to {v}", "{v} metres deep", "at a depth of {v}")),
    ("weight", "int", "Weight in kilos", ("coming in at {v} kilos", "{v} kilos heavy", "with a weight of {v}")),
    ("leader", "name", "Who leads", ("taken over by {v}", "run by {v}", "with {v} in charge", "led on by {v}")),
    ("count", "int", "How many", ("{v} times", "with count {v}", "and make it {v}", "with a count of {v}")),
    ("quantity", "int", "How many", ("with quantity {v}", "in the quantity {v}", "{v} pieces")),
    ("people", "int", "Number of people", ("for {v} people", "for {v} persons", "for {v}")),
    ("guests", "int", "Number of guests", ("for {v} guests", "for {v}")),
    ("minutes", "int", "Minutes", ("for {v} minutes", "in {v} minutes", "of {v} minutes")),
    ("duration", "int", "Duration in minutes", ("for {v} minutes", "lasting {v} minutes", "with a duration of {v}")),
    ("days", "int", "Number of days", ("for {v} days", "for the next {v} days")),
    ("nights", "int", "Number of nights", ("for {v} nights",)),
    ("amount", "number", "The amount", ("of {v}", "with an amount of {v}", "for {v}", "with the amount {v}")),
    ("price", "number", "The price", ("for {v}", "at the price {v}", "with price {v}")),
    ("limit", "int", "Most results", ("with a limit of {v}", "at most {v}", "limited to {v}")),
    ("level", "int", "The level", ("at level {v}", "to level {v}", "to {v}")),
    ("temperature", "number", "Degrees", ("to {v} degrees", "at {v} degrees", "at {v}")),
    ("number", "number", "A number", ("with the number {v}", "for {v}", "with number {v}")),
    ("a", "number", "First number", ("with a = {v}", "of {v}", "with a {v}")),
    ("b", "number", "Second number", ("with b = {v}", "and {v}", "with b {v}")),
    ("colour", "colour", "The colour", ("in {v}", "with the colour {v}", "in the colour {v}")),
    ("size", "size", "The size", ("in size {v}", "with size {v}", "of size {v}")),
    ("unit", "unit", "The unit", ("in {v}", "with the unit {v}")),
    ("language", "language", "The language", ("in {v}", "into {v}", "to {v}")),
    ("urgent", "bool", "Whether it is urgent", ("and it is {v}",)),
    ("silent", "bool", "Whether to be silent", ("and silent is {v}",)),
    ("names", "names", "List of names", ("for {v}", "with {v}", "with the names {v}")),
    ("tags", "words", "List of tags", ("with the tags {v}", "tagged {v}")),
    ("items", "words", "List of items", ("with {v}", "for {v}", "with the items {v}")),
    ("numbers", "numbers", "List of numbers", ("of {v}", "for {v}", "with the numbers {v}")),
)
PARAMS_HELD_OUT: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("lagoon", "place", "The lagoon", ("at the lagoon {v}", "at lagoon {v}")),
    ("village", "place", "The village", ("in the village {v}", "in the village of {v}")),
    ("captain", "name", "Name of the captain", ("under captain {v}", "with captain {v}")),
    ("escort", "name", "Name of the escort", ("with the escort {v}", "led by the escort {v}")),
    ("permit_code", "code", "Code of the permit", ("with permit code {v}", "using the permit code {v}")),
    ("tonnage", "int", "Weight in tons", ("with a tonnage of {v}", "weighing {v} tons")),
    ("altitude", "number", "Altitude in metres", ("at an altitude of {v}", "with the altitude {v}")),
    ("slogan", "oneword", "The slogan", ("with the slogan {v}", "under the slogan {v}")),
    ("takeoff", "time", "Time of takeoff", ("with takeoff at {v}", "taking off at {v}")),
    ("deputies", "names", "Names of the deputies", ("with the deputies {v}", "together with deputies {v}")),
)

ODD_WAYS = (
    "with the {p} {v}",
    "with {p} {v}",
    "for the {p} {v}",
    "at the {p} {v}",
    "by {p} {v}",
    "in the {p} {v}",
    "under the {p} {v}",
    "of {p} {v}",
    "on the {p} {v}",
)
# {do} is "verb noun" with the arguments said in passing
REQUEST = phrases(
    """
    {do}.
    {do}
    please {do}.
    {do}, please.
    can you {do}?
    could you {do}?
    could you please {do}?
    can you please {do}?
    I want you to {do}.
    I would like you to {do}.
    I'd like to {do}.
    I want to {do}.
    I need to {do}.
    I need you to {do}.
    would you {do}?
    will you {do}?
    help me to {do}.
    help me {do}.
    go and {do}.
    now {do}.
    let us {do}.
    let's {do}.
    try to {do}.
    please try to {do}.
    is it possible to {do}?
    it would be nice to {do}.
    next, {do}.
    you should {do}.
    just {do}.
    {do} for me.
    use the tool to {do}.
    I have to {do}.
    """,
    """
    be so good as to {do}.
    would you mind going ahead to {do}?
    my request: {do}.
    may I ask you to {do}?
    kindly {do}.
    the job now is to {do}.
    I would be glad if you could {do}.
    """,
)
ASKED = (
    "what is the {what}?",
    "what is the {what}?",
    "what's the {what}?",
    "how is the {what}?",
    "tell me the {what}.",
    "do you know the {what}?",
    "I want to know the {what}.",
    "I need the {what}.",
    "give me the {what}.",
    "which is the {what}?",
    "{what}?",
    "{what} please",
    "what about the {what}?",
    "how about the {what}?",
    "please tell me the {what}.",
    "can you tell me the {what}?",
    "could you tell me the {what}?",
    "what does the {what} say?",
    "is there a {what}?",
    "what is the current {what}?",
)
EXPLICIT = (
    "with {p} {v}",
    "with {p} = {v}",
    "with {p} set to {v}",
    "{p} is {v}",
    "{p}: {v}",
    "where the {p} is {v}",
    "and the {p} is {v}",
    "use {v} as {p}",
    "using {p} {v}",
)
EXPLICIT_HELD_OUT = ("taking {v} as the {p}", "the {p} should be {v}", "let the {p} be {v}")
ERRORS = (
    "not found|timeout|no connection|access denied|invalid id|out of stock|service unavailable|unknown place"
    "|no such user|limit reached|bad request|already taken|not allowed|no results"
    "|wrong format|server error|permission denied|too many requests|internal error|missing field"
)
UNRELATED_ANSWER = "I have no tool for that."
