"""Pieces that paraphrase: leads, links, tails and fillers that multiply the plain phrasings of training."""

from __future__ import annotations


def _cut(text: str) -> tuple[str, ...]:
    return tuple(text.replace("\n", "").split("|"))


LINKS = _cut(
    "is|is|is|is now|is still|was always|has been|will be|remains|became|turned out to be|happens to be"
    "|is currently|is officially|is in fact|is simply|is definitely|has become|is usually|is just"
    "|stays|is, as before,|is since last week|was set to|was changed to|is set to|ended up as|is known to be"
    "|must be|is probably|is without doubt|was for years|is for now|is going to be"
)
NOUN_CORES = _cut(
    "{my} {np} {link} {v}|{my} {np} {link} {v}|{my} {np} {link} {v}|{my} {np} {link} {v}|{v} {link} {my} {np}"
    "|{my} {np}, {fill}, is {v}|{my} {np} - {v}|{my} {np} ({v})|{my} {np} -> {v}"
    "|the {np} that {I} {have} {link} {v}|{I} picked {v} as {my} {np}|use {v} as {my} {np}|take {v} for {my} {np}"
    "|consider {v} {my} {np}|file {v} under {my} {np}|list {v} as {my} {np}"
    "|set {my} {np} to {v}|make {my} {np} {v}|enter {v} for {my} {np}|treat {v} as {my} {np}"
    "|they gave {me} {v} as {my} {np}|when it comes to {my} {np}, think {v}|speaking of {my} {np}, it's {v}"
    "|regarding {my} {np}: {v}|concerning {my} {np}, {v} is right|about {my} {np}: it {link} {v}"
    "|with {v} {I} found {my} {np}|{I} chose {v} for {my} {np}|{my} {np}? that would be {v}"
    "|{my} {np} goes like this: {v}|{my} {np} reads {v}|what you need to know about {my} {np} is {v}"
    "|{v} counts as {my} {np}|{v} serves as {my} {np}|if somebody asks for {my} {np}, say {v}"
    "|nothing beats {v} as {my} {np}|{my} own {np} {link} {v}|{my} very own {np} is just {v}"
    "|{my} {np} bears the name {v}|only {v} can be {my} {np}|{my} {np} equals {v}"
    "|look at {my} {np}: {v}|{my} {np} stands at {v}|{my} {np} was given as {v}|under {my} {np} you may put {v}"
    "|{v} it is, {my} {np}|there is {v}, which {link} {my} {np}"
)
KIN_CORES = _cut(
    "{my} {k} {link} called {v}|{my} {k} goes by {v}|{v} is the name of {my} {k}|say hello to {my} {k} {v}"
    "|{my} {k} was named {v}|{I} live{s} with a {k} called {v}|meet {my} {k} {v}|this is {v}, {my} {k}"
    "|{my} {k} is somebody called {v}|they call {my} {k} {v}|{my} {k} listens to the name {v}"
    "|{my} {k} carries the name {v}|the name {v} belongs to {my} {k}|{v}, {my} {k}, says hello"
    "|{my} {k}, whose name is {v}, came along|{my} {k} has the name {v}|{my} {k} got the name {v}"
    "|{my} {k}'s first name is {v}|{I} {have} a lovely {k} by the name of {v}|{my} {k} likes to be called {v}"
    "|{my} {k}, that is {v}|{v} happens to be {my} {k}|{my} {k} {v} came by today|I talked to {my} {k} {v}"
    "|{my} dear {k} {v} {was} here|when I say {v} I mean {my} {k}|{my} new {k} is {v}|we named {my} {k} {v}"
    "|there is {my} {k}, called {v}|you would like {my} {k} {v}|{my} {k} answered, it was {v}|{my} {k} signs as {v}"
)
LEADS = _cut(
    "for the record,|in case you need it,|if anyone asks,|before I forget,|to be clear,|as you may know,"
    "|here's a fact:|a small note:|note to self:|for your notes:|I'd like you to know that|I'd like to add that"
    "|it may help that|it is important that|what matters:|you might need this:|keep this:|write this in your book:"
    "|this is for later:|let it be known that|I forgot to say that|I never told you, but|as I said,"
    "|between us,|honestly,|in short,|fun fact:|funny enough,|just a detail:|another thing:|next thing:"
    "|first of all,|second,|finally,|lastly,|on top of that,|besides,|meanwhile,|at the moment|currently,"
    "|as of today,|as always,|so far,|it turns out that|guess what,|believe it or not,|I can tell you that"
    "|I am sure that|I guess|you see,|you know,|look here,|pay attention:|attention:|info:|fact:|reminder:"
    "|update:|memo:|to do: remember|store this:|keep in memory:|remember for me:|please learn that|please know that"
    "|it is true that|they say|my family knows that|people say|everyone says|I often say that"
    "|to tell the truth,|good to know:|if you wonder,|for later,|for your information,|be aware that|mind that"
    "|take note:|put this down:|jot down that|one thing more,|oh and|and yes,|hi there,|good day,"
)
TAILS = _cut(
    "for now|these days|as you know|if you ask me|for sure|of course|indeed|in the end|at least|since yesterday"
    "|since last year|after all|you know|I think|I believe|if I remember well|as far as I know|just so you know"
    "|in case you need it|keep it please|please remember|don't lose it|got it?|okay?|alright?|right?|remember that"
    "|keep that in mind|that's all|that is important|for later|by the way|and I like it|and that's fine"
    "|thanks|thank you|as I told others|no doubt|and nothing else|believe me|to be exact|more or less|as always"
    "|again|for the moment|at work|at home|here|in my life"
)
FILLERS = _cut(
    "actually|really|just|now|still|also|maybe|indeed|simply|over|quite|here|there|these days|you know|well"
    "|of course|I guess|in fact|as always|again|already|sort of|always|usually|today|lately|by now|honestly"
    "|probably|certainly|then|so|even|only|surely|perhaps|somehow|once|for years|right now|at last|kind of|exactly"
    "|basically"
)
ASK_LEADS = _cut(
    "do you happen to know|can you recall|I was wondering|I'd love to know|please state|let's see if you know"
    "|are you able to tell me|is there a chance you know|it would help to know|I keep forgetting|I lost track of"
    "|nobody can tell me|I must know|they ask me|someone wants to know|the form asks|I'm not sure|I wonder|confirm"
    "|show me|read out|spell out|bring up|find out|look up|recall|say again|refresh my memory about|fill me in on"
    "|give me a hint on|let me hear|repeat|mention|name|report|please find|tell us|inform me about|answer me:"
    "|I'd like to hear|I want to hear|I have no clue|I forgot|I no longer know|who knows|guess|check your notes for"
    "|check your memory for|remind us of|try to recall|do me a favour and tell me|please say|please give"
    "|could you say once more|can you look up|can you find|may I ask|may I know|I should know|please look up"
    "|I would like to know|we need to find out|do you have any record of|is it noted|could I get|can I have"
    "|just tell me|go on, tell me|now tell me|surely you know|I bet you know|you should know|do you have"
)
ASK_CORES = _cut(
    "what {my} {np} is|what {my} {np} is|{my} {np}|{my} {np}|what {my} {np} was|what I said about {my} {np}"
    "|which {np} is {mine}|the {np} of {me2}"
)
NOUN_ASK_DIRECT = _cut(
    "what have you got for {my} {np}?|what's on file for {my} {np}?|what's stored under {my} {np}?"
    "|how does {my} {np} go?|how did {my} {np} go again?|which one is {my} {np}?|{my} {np}, what was that?"
    "|{my} {np} - do you have it?|what would {my} {np} be?|what exactly is {my} {np}?|what on earth is {my} {np}?"
    "|so {my} {np} is?|{my} {np} equals?|{my} {np} = ?|about {my} {np}, what is it?|what might {my} {np} be?"
    "|when they ask for {my} {np}, what do I say?|what did I give as {my} {np}?|what did we note as {my} {np}?"
    "|what should I write for {my} {np}?|what goes under {my} {np}?"
    "|what do I put as {my} {np}?|and what about {my} {np}?|how about {my} {np}?"
    "|where did we note {my} {np}, what was it?|I said something about {my} {np}, what was it?"
    "|we spoke about {my} {np}, what is it?"
    "|there was something with {my} {np}, which one?|is there something on {my} {np}?|what is the value of {my} {np}?"
)
KIN_ASK_CORES = _cut(
    "what {my} {k} is called|who {my} {k} is|{my} {k}'s name|the name of {my} {k}|what {my} {k}'s name is"
    "|how {my} {k} is called|the name {my} {k} has|what I call {my} {k}"
)
KIN_ASK_DIRECT = _cut(
    "what name goes with {my} {k}?|which name belongs to {my} {k}?|what would {my} {k} be called?"
    "|how do we call {my} {k}?|what do people call {my} {k}?|{my} {k} is named what?|who again is {my} {k}?"
    "|and the name of {my} {k} is?|under which name do I know {my} {k}?|what did I say about {my} {k}'s name?"
    "|{my} {k}, what's the name?|what's {my} {k} called again?|by which name does {my} {k} go?"
)
ASK_TAILS = _cut(
    "please|again|once more|now|if you can|if you remember|for me|quickly|by the way|you know it|I told you"
    "|as I said before|right now|one more time|exactly|in your notes|thanks|today|then"
)
ASK_OPENERS = _cut(
    "tell me,|one question:|a question:|I ask you:|listen,|let's test you:|a little test:|small quiz:"
    "|my question is:|here is a question:|just asking,|out of interest,|if I may ask,|be honest,|quick:"
    "|sorry to ask,"
    "|excuse me,|hold on,|wait,|now,|and now:|next question:|last question:|again:|think back:|think:|remember?"
    "|come on,|dear assistant,|my friend,|tell me please,|question:|Q:|hm,|ah,|yes, and"
)
REQUEST_MORE = _cut(
    "I'd appreciate it if you would {do}.|it's time to {do}.|my wish is to {do}.|next step: {do}.|task: {do}"
    "|todo: {do}|the plan is to {do}.|go ahead and {do}.|make sure to {do}.|feel free to {do}."
    "|do me a favour and {do}."
    "|I was hoping you could {do}.|any chance you could {do}?|how about you {do}?|why don't you {do}?|quickly {do}."
    "|first {do}.|finally {do}.|we must {do}.|somebody should {do}.|I wish to {do}.|I ask you to {do}."
    "|I order you to {do}.|you have to {do}.|get ready to {do}.|begin to {do}.|{do} right now.|{do} when you can."
    "|{do} as soon as possible.|{do}, will you?|{do} and tell me the result.|{do}, thanks.|{do} now.|{do} again."
    "|{do} if you can.|{do} today.|we need to {do}.|your turn: {do}.|assistant, {do}.|hey you, {do}."
    "|what I want is to {do}.|the thing to do is {do}.|here is what I need: {do}.|here is an order: {do}."
    "|one job for you: {do}."
    "|one task: {do}.|it is necessary to {do}.|I really need to {do}.|are you able to {do}?|is there a way to {do}?"
    "|could we {do}?|shall we {do}?|may we {do}?|can we {do}?|do it: {do}.|yes, {do}.|start: {do}."
    "|I beg you to {do}.|I hope you can {do}.|it would help to {do}.|you may {do}.|you can {do} now."
    "|you could {do}.|action: {do}|command: {do}|{do} once.|simply {do}.|then {do}.|also {do}.|afterwards {do}."
    "|before noon {do}."
)
EXPLICIT_MORE = _cut(
    "with {p} as {v}|{p} equals {v}|{p} will be {v}|the {p} being {v}|and for {p} take {v}|{v} for the {p}"
    "|{v} as {p}|choose {v} as the {p}|put {v} as {p}|set the {p} to {v}|{p} -> {v}|on {p} {v}|having {p} {v}"
    "|({p} {v})"
    "|[{p}: {v}]|by the {p} {v}|make the {p} {v}|the {p} must be {v}|I want the {p} {v}|give it the {p} {v}"
    "|under the {p} {v}|the {p} is going to be {v}|with {v} for the {p}|with {v} as {p}|the {p} needs to be {v}"
    "|for {p} use {v}|as {p} use {v}|I'd say {v} for the {p}|at {p} {v}|{p} - {v}|whose {p} is {v}|its {p} is {v}"
    "|that has {p} {v}|let {p} = {v}|so that the {p} is {v}|together with {p} {v}|and {v} as the {p}"
)
PERSONA_MORE = _cut(
    "Answer as {name}.|Pretend to be {name}.|You play {name}.|The user talks to {name}.|Talk like {name}."
    "|They call you {name}.|People call you {name}.|Your nickname is {name}.|Introduce yourself as {name}."
    "|Respond as {name}.|Your role: {name}.|Chat as {name}.|Character: {name}|You've been named {name}."
    "|We call you {name}.|The bot is {name}.|Assume the identity of {name}.|Identify yourself as {name}."
    "|The name of this assistant is {name}.|Stay in the role of {name}.|Always present yourself as {name}."
    "|Write as {name}.|Your real name is {name}.|Everybody calls you {name}.|For this session you are {name}."
    "|Today you are {name}.|In this conversation you are {name}.|This assistant goes by {name}."
    "|Reply in the name of {name}.|You carry the name {name}.|Let your name be {name}."
    "|You were named {name} by your maker."
    "|The user knows {name}, that is you.|If asked, your name is {name}.|Assistant name: {name}"
    "|Your character is {name}.|As {name}, help the user.|Under the name {name} you help people."
    "|You have the name {name}."
    "|Imagine you are {name}.|Take the role of {name}.|Behave as {name}.|Use the name {name}.|You shall be {name}."
    "|You will be {name}.|The persona is {name}.|Your identity: {name}.|Sign as {name}.|{name} is your name."
    "|{name} is who you are.|{name} is the assistant's name.|Be known to all as {name}.|Perform as {name}."
    "|Act and talk as {name}."
)
NAME_ASK_MORE = _cut(
    "whom am I talking with?|what do I call you?|how do people address you?|what name did they give you?"
    "|I'd like to know your name|what are you named?|let me know your name|can I have your name?"
    "|could I get your name?"
    "|your name, please|how should people call you?|who do I have here?|what's the name?|name yourself"
    "|state your name|I forgot your name|remind me of your name|what was it, your name?|is there a name for you?"
    "|how do you call yourself?|do you go by a name?|under what name do you work?|with whom do I speak?"
    "|what can I call you?|what do your friends call you?|what is the name you have?|I don't know your name yet"
    "|may I ask your name?|may I ask how you are called?|please say your name|give me your name"
    "|what name should I use for you?|how can I call you?|which name is yours?|could you state your name?"
    "|what did they name you?"
    "|has anyone given you a name?|how shall I call you?|what do you want to be called?|tell us your name"
    "|so you are called?|and you are?|what name do people know you by?|mind if I ask your name?"
    "|I want to know your name"
)
CHANGE_LEADS = _cut(
    "actually|actually,|sorry,|correction:|no,|no wait,|wait,|I was wrong,|I made a mistake,|my mistake,|oops,"
    "|hang on,|change of plan:|it changed:|things changed,|new:|update:|news:|I have to correct that:"
    "|let me fix that:"
    "|forget what I said,|that is old,|not any more,|from today|from now on|as of now|better:|to be right,"
    "|I mixed it up,|I misspoke,|I said it wrong,|to correct it,|please fix this:|here is the new one:|instead,"
    "|rather,|well, now"
    "|new information:|I take that back,|that was wrong,|it is different now:|since this morning|since yesterday"
    "|I looked again,|I checked,|turns out|by now|there was a change:|please update:|replace that:|overwrite this:"
    "|strike that,"
)
CHANGE_TAILS = _cut(
    "||||| now| instead| from now on|, not {old}|, not {old} any more|, no longer {old}| and not {old}|, sorry"
    "|, I was wrong before|, forget {old}| these days|, it changed|, please update it"
)
