"""Slots that have verbs of their own: (key, value kind, answer, tell, ask, check, who). Same markers as in `facts`."""

from __future__ import annotations

SLOT_TEXTS: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "name",
        "name",
        "{my} name is {v}",
        "my name is {v}.|I am {v}.|I'm {v}.|call me {v}.|you can call me {v}.|my name's {v}.|the name is {v}."
        "|this is {v}."
        "|people call me {v}.|I am called {v}.|hi, I'm {v}.|hello, my name is {v}.|they know me under the name {v}."
        "|{v} is who I am.|you are chatting with {v}.|{v} at your service.|my friends say {v} to me.|I go by {v}."
        "|the one who writes is {v}.|here is {v}.|greetings from {v}.|it is me, {v}.|I was named {v}."
        "|{v} is the name.|you can write {v} when you mean me.",
        "what is my name?|what's my name?|who am I?|do you know my name?|do you remember my name?|say my name."
        "|tell me my name.|how am I called?|what am I called?|do you know who I am?|my name?"
        "|what was my name again?|who are you talking to?|how do you call me?|which name is mine?"
        "|what do you call me?|who is writing to you?|how am I named?|what name did I give you?"
        "|can you call me by my name?|what is the name of the person you talk to?|under what name do I go?",
        "is my name {v}?|am I {v}?|my name is {v}, right?",
        "",
    ),
    (
        "live",
        "place",
        "{I} live{s} in {v}",
        "{I} live{s} in {v}.|{I} {am} living in {v}.|{my} home is in {v}.|{I} moved to {v}.|{my} house is in {v}."
        "|{I} live{s} in a town called {v}.|{I} live{s} in the city of {v}.|{I} just moved to {v}.|{my} flat is in {v}."
        "|{I} {am} at home in {v}.|{I} {am} based in {v}.|{I} live{s} near the river in {v}.|{my} place is in {v}."
        "|{I} stay{s} in {v}.|you find {me} in {v}.|{v} is where {I} live{s}.|{v} is {my} home."
        "|{I} made {my} home in {v}.|{I} reside{s} in {v}.|{I} spend{s} {my} days in {v}.|{I} {have} a flat in {v}."
        "|{my} bed stands in {v}.|{I} now live{s} somewhere in {v}.",
        "where {do} {I} live?|in which city {do} {I} live?|which town {do} {I} live in?|what city {do} {I} live in?"
        "|where is {my} home?|where is {my} house?|which city is {my} home?|what place {do} {I} live in?"
        "|in what town {do} {I} live?"
        "|do you know where {I} live{s}?|tell me where {I} live{s}.|can you tell me where {I} live{s}?"
        "|do you remember where {I} live{s}?|what is {my} city?|where can people find {me}?|where {do} {I} stay?"
        "|where {do} {I} reside?|what is the place {I} live{s} in?|which place is {my} home now?"
        "|{my} home is where?|where is {my} flat?|where {do} {I} have {my} home?|in which place {do} {I} stay?"
        "|where {am} {I} at home?|where did I say {I} live{s}?",
        "{do} {I} live in {v}?|is {my} home in {v}?|{I} live{s} in {v}, right?",
        "who lives in {v}?|who is living in {v}?",
    ),
    (
        "from",
        "place",
        "{I} {am} from {v}",
        "{I} {am} from {v}.|{I} come{s} from {v}.|{I} {was} born in {v}.|{I} grew up in {v}.|{my} home town is {v}."
        "|{I} {am} originally from {v}.",
        "where {am} {I} from?|where {do} {I} come from?|where {was} {I} born?|what is {my} home town?"
        "|where did {I} grow up?"
        "|do you know where {I} {am} from?|tell me where {I} {am} from.",
        "{am} {I} from {v}?|{do} {I} come from {v}?",
        "who is from {v}?|who comes from {v}?",
    ),
    (
        "age",
        "age",
        "{I} {am} {v} years old",
        "{I} {am} {v} years old.|{I} {am} {v}.|{I} turned {v}.|{my} age is {v}.|{I} {am} {v} years of age."
        "|{I} just turned {v} last week."
        "|{I} {am} already {v} years old.|{I} will be {v} years old soon.|{v} years is {my} age."
        "|{I} {have} lived {v} years.|{I} celebrated {v} years.|{I} {am} now {v} years of age.|{my} age now is {v}."
        "|{v} is how old {I} {am}.|{I} got to {v} this year.",
        "how old {am} {I}?|what is {my} age?|what's {my} age?|do you know how old {I} {am}?|tell me {my} age."
        "|how many years old {am} {I}?"
        "|do you remember how old {I} {am}?|do you remember {my} age?|tell me how old {I} {am}."
        "|what number is {my} age?|how many years {have} {I} lived?|what age {do} {I} have?|{my} age is what?"
        "|at what age {am} {I}?|how many years old {am} {I} now?",
        "{am} {I} {v} years old?|{am} {I} {v}?|is {my} age {v}?",
        "who is {v} years old?",
    ),
    (
        "job",
        "job",
        "{I} work{s} as a {v}",
        "{I} work{s} as a {v}.|{I} {am} a {v}.|{my} job is {v}.|{I} {have} a job as a {v}.|{I} {am} a {v} by trade."
        "|{I} became a {v}."
        "|{I} earn{s} {my} living as a {v}.|{I} work{s} in town as a {v}.",
        "what is {my} job?|what {do} {I} do for a living?|what's {my} job?|what {do} {I} work as?"
        "|what work {do} {I} do?|what is {my} profession?"
        "|what {do} {I} do for work?|tell me {my} job.|do you remember what {I} work{s} as?|what {am} {I} by trade?"
        "|what {do} {I} do?",
        "{do} {I} work as a {v}?|{am} {I} a {v}?",
        "who works as a {v}?|who is a {v}?",
    ),
    (
        "employer",
        "title",
        "{I} work{s} at {v}",
        "{I} work{s} at {v}.|{I} work{s} for {v}.|{my} company is {v}.|{I} {have} a job at {v}.|{my} employer is {v}.",
        "where {do} {I} work?|who {do} {I} work for?|what company {do} {I} work for?|what is {my} company?"
        "|which company {do} {I} work at?",
        "{do} {I} work at {v}?",
        "who works at {v}?",
    ),
    (
        "like",
        "liking",
        "{I} like{s} {v}",
        "{I} like{s} {v}.|{I} love{s} {v}.|{I} really like{s} {v}.|{I} enjoy{s} {v}.|{I} {am} fond of {v}."
        "|{I} adore{s} {v}."
        "|{I} {am} a big fan of {v}.|{I} like{s} {v} a lot.|{I} like{s} {v} very much.|what {I} like{s} most is {v}.",
        "what {do} {I} like?|what {do} {I} love?|what {do} {I} enjoy?|do you know what {I} like{s}?"
        "|tell me what {I} like{s}."
        "|what {am} {I} fond of?|what did I say {I} like{s}?|what thing {do} {I} like?"
        "|do you remember what {I} like{s}?",
        "{do} {I} like {v}?|{do} {I} love {v}?",
        "who likes {v}?|who loves {v}?",
    ),
    (
        "dislike",
        "liking",
        "{I} {do} not like {v}",
        "{I} hate{s} {v}.|{I} {do} not like {v}.|{I} {do}n't like {v}.|{I} can't stand {v}.|{I} dislike{s} {v}."
        "|{I} {do} not enjoy {v}.|{I} really hate{s} {v}.",
        "what {do} {I} hate?|what {do} {I} not like?|what {do} {I} dislike?|what can {I} not stand?"
        "|what {do}n't {I} like?|tell me what {I} hate{s}."
        "|do you remember what {I} {do}n't like?",
        "{do} {I} hate {v}?|{do} {I} dislike {v}?",
        "who hates {v}?|who does not like {v}?",
    ),
    (
        "allergy",
        "food",
        "{I} {am} allergic to {v}",
        "{I} {am} allergic to {v}.|{I} {have} an allergy to {v}.|{I} can't eat {v}, {I} {am} allergic."
        "|{my} allergy is {v}.",
        "what {am} {I} allergic to?|what is {my} allergy?|what allergy {do} {I} have?"
        "|which food {am} {I} allergic to?|what food should {I} avoid?"
        "|what can't {I} eat?",
        "{am} {I} allergic to {v}?",
        "who is allergic to {v}?",
    ),
    (
        "plays",
        "instrument",
        "{I} play{s} the {v}",
        "{I} play{s} the {v}.|{my} instrument is the {v}.|{I} can play the {v}.|{I} {am} learning to play the {v}."
        "|{I} practise{s} the {v} every day.",
        "what instrument {do} {I} play?|which instrument {do} {I} play?|what {do} {I} play?"
        "|what is {my} instrument?|do you remember what {I} play{s}?",
        "{do} {I} play the {v}?",
        "who plays the {v}?",
    ),
    (
        "speaks",
        "language",
        "{I} speak{s} {v}",
        "{I} speak{s} {v}.|{I} can speak {v}.|{my} language is {v}.|{I} talk{s} in {v} at home.",
        "what language {do} {I} speak?|which language {do} {I} speak?|what {do} {I} speak?|what is {my} language?",
        "{do} {I} speak {v}?",
        "who speaks {v}?",
    ),
    (
        "learns",
        "language",
        "{I} {am} learning {v}",
        "{I} {am} learning {v}.|{I} stud{ies} {v}.|{I} started to learn {v}.|{I} take{s} lessons in {v}.",
        "what {am} {I} learning?|what {do} {I} study?|which language {am} {I} learning?|what {am} {I} studying?",
        "{am} {I} learning {v}?",
        "who is learning {v}?",
    ),
    (
        "hobby",
        "hobby",
        "{my} hobby is {v}",
        "{my} hobby is {v}.|in {my} free time {I} go{es} {v}.|{I} do{es} {v} as a hobby.|{I} spend{s} weekends {v}."
        "|{my} favourite pastime is {v}.",
        "what is {my} hobby?|what {do} {I} do in {my} free time?|what hobby {do} {I} have?"
        "|what {do} {I} do on weekends?|what is {my} pastime?",
        "is {my} hobby {v}?",
        "whose hobby is {v}?",
    ),
    (
        "drives",
        "carkind",
        "{I} drive{s} a {v}",
        "{I} drive{s} a {v}.|{I} {have} a {v}.|{my} car is a {v}.|{I} bought a {v} and {do} not walk any more.",
        "what car {do} {I} drive?|what {do} {I} drive?|what kind of car {do} {I} have?|which car {do} {I} have?"
        "|what is {my} car?",
        "{do} {I} drive a {v}?",
        "who drives a {v}?",
    ),
    (
        "birthday",
        "date",
        "{my} birthday is on {v}",
        "{my} birthday is on {v}.|{my} birthday is {v}.|{I} {was} born on {v}.|{I} {have} {my} birthday on {v}."
        "|{I} celebrate{s} {my} birthday on {v}.|{my} birthday comes on {v}.|on {v} {I} {have} a birthday."
        "|{v} is {my} birthday.|{I} turn{s} a year older on {v}.|{my} birthday party is on {v}.",
        "when is {my} birthday?|what day is {my} birthday?|when {was} {I} born?|what is {my} birthday?"
        "|do you remember {my} birthday?"
        "|do you know when {my} birthday is?|on what day is {my} birthday?|what date is {my} birthday?"
        "|on what date is {my} birthday?|when do we celebrate {my} birthday?|when {do} {I} celebrate {my} birthday?"
        "|which day is {my} birthday?|when does {my} birthday come?",
        "is {my} birthday on {v}?|is {my} birthday {v}?",
        "whose birthday is on {v}?",
    ),
    (
        "wants",
        "thing",
        "{I} want{s} a {v}",
        "{I} want{s} a {v}.|{I} would like a {v}.|{I} wish{es} for a {v}.|{I} want{s} to have a {v}."
        "|{I} need{s} a {v}.",
        "what {do} {I} want?|what {do} {I} need?|what would {I} like to have?|what {do} {I} wish for?",
        "{do} {I} want a {v}?",
        "who wants a {v}?",
    ),
    (
        "going",
        "place",
        "{I} {am} going to {v}",
        "{I} {am} going to {v}.|{I} will travel to {v}.|{I} {am} flying to {v} next week.|{my} trip is to {v}."
        "|{I} plan{s} a trip to {v}."
        "|next month {I} will go to {v}.|{I} {am} travelling to {v} soon.|{my} holiday is in {v}."
        "|{v} is where {I} {am} going.|{my} next trip goes to {v}.|{I} booked a trip to {v}."
        "|{I} {have} tickets to {v}.|{I} {am} heading to {v}.|{my} journey ends in {v}."
        "|{I} {am} off to {v} tomorrow.",
        "where {am} {I} going?|where will {I} travel?|where {am} {I} flying?|where is {my} trip to?"
        "|which place will {I} visit?|where {am} {I} travelling?"
        "|where is {my} holiday?|what is {my} destination?|where does {my} trip go?|what place {am} {I} heading to?"
        "|where {am} {I} heading?|to which town {am} {I} travelling?|where does {my} journey end?"
        "|what is the goal of {my} trip?|where {am} {I} off to?",
        "{am} {I} going to {v}?",
        "who is going to {v}?",
    ),
)

# relatives and pets: {k} is the word for them, {v} their name
KIN_TELL = (
    "{my} {k} is called {v}.|{my} {k} is {v}.|{my} {k}'s name is {v}.|{I} {have} a {k} called {v}."
    "|{I} {have} a {k} named {v}.|the name of {my} {k} is {v}."
    "|{my} {k} is named {v}.|{v} is {my} {k}.|{I} {have} a {k}. the name is {v}.|{my} {k}'s called {v}."
    "|please remember that {my} {k} is called {v}."
    "|remember, {my} {k} is called {v}.|{I} {have} a {k} whose name is {v}.|we call {my} {k} {v}."
    "|{my} {k}, {v}, is with me today."
    "|{I} visited {my} {k} {v} today.|I want to tell you about {my} {k} {v}.|{my} {k} {v} is very kind."
    "|my notes say {my} {k} is {v}."
    "|{I} {have} a {k}. its name is {v}.|{I} {have} a {k}, his name is {v}.|{I} {have} a {k}, her name is {v}."
    "|{I} got a {k} and named it {v}."
    "|{I} love{s} {my} {k} {v}.|{my} {k} goes by the name {v}.|did you know {my} {k} is called {v}?"
)
KIN_ASK = (
    "what is {my} {k} called?|what is {my} {k}'s name?|what's {my} {k}'s name?|what is the name of {my} {k}?"
    "|who is {my} {k}?|how is {my} {k} called?"
    "|do you know {my} {k}'s name?|do you remember {my} {k}'s name?|tell me {my} {k}'s name."
    "|tell me the name of {my} {k}.|what was {my} {k} called?"
    "|what was {my} {k}'s name again?|can you tell me {my} {k}'s name?|{my} {k}'s name?|what did I call {my} {k}?"
    "|remind me what {my} {k} is called."
    "|I forgot {my} {k}'s name.|what name does {my} {k} have?|do you remember what {my} {k} is called?"
    "|do you know who {my} {k} is?"
    "|what {do} {I} call {my} {k}?|name {my} {k}.|which name has {my} {k}?|can you remember the name of {my} {k}?"
)
KIN_ANSWER = "{my} {k} is {v}"
KIN_CHECK = "is {my} {k} called {v}?|is {my} {k}'s name {v}?|{my} {k} is {v}, right?|is {v} {my} {k}?"
KIN_WHO = (
    "who is {v}?|do you know who {v} is?|what do you know about {v}?|tell me who {v} is.|and who is {v}?|who was {v}?"
)
KIN_TELL_HELD_OUT = (
    "let me introduce {my} {k}: {v}.|the {k} of mine is {v}.|{my} {k} answers to {v}."
    "|I should mention that {my} {k} is {v}."
    "|everybody knows {my} {k} as {v}."
)
KIN_ASK_HELD_OUT = (
    "could you say the name of {my} {k}?|what name did I give for {my} {k}?|any idea what {my} {k} is called?"
    "|would you mind telling me {my} {k}'s name?|help me, what is {my} {k} called?"
)
# held-out ways for the verb slots the evaluation uses
SLOT_HELD_OUT: dict[str, tuple[str, str]] = {
    "name": (
        "folks know me as {v}.|it's {v} speaking.|you are talking to {v}.",
        "could you say my name?|what should you call me?|by what name do you know me?",
    ),
    "live": (
        "{my} place is over in {v}.|{I} settled down in {v}.|these days {I} live{s} over in {v}.",
        "in what place {do} {I} live these days?|could you say where {I} live{s}?|where would one find {my} home?",
    ),
    "age": ("{I} reached the age of {v}.|{I} {am} aged {v}.", "could you say how old {I} {am}?|what age {am} {I} now?"),
    "going": (
        "{my} next journey leads to {v}.|{I} booked a journey to {v}.",
        "where does {my} next journey lead?|to which place {am} {I} going?",
    ),
    "birthday": ("{my} birthday falls on {v}.", "when does {my} birthday fall?|could you say when {my} birthday is?"),
}

# things without an owner: {t} is the thing, {is} agrees with it
THING_TEXTS: tuple[tuple[str, str, str, str, str, str], ...] = (
    (
        "place",
        "spot",
        "the {t} {is} in the {v}",
        "the {t} {is} in the {v}.|I put the {t} in the {v}.|you find the {t} in the {v}.|I left the {t} in the {v}."
        "|the {t} {is} lying in the {v}."
        "|we keep the {t} in the {v}.|I keep my {t} in the {v}.|my {t} {is} in the {v}."
        "|remember that the {t} {is} in the {v}.|I hid the {t} in the {v}."
        "|I am putting the {t} into the {v}.",
        "where {is} the {t}?|where {is} my {t}?|where did I put the {t}?|where did I leave the {t}?"
        "|where can I find the {t}?|where do I keep the {t}?"
        "|do you know where the {t} {is}?|do you remember where I put the {t}?|tell me where the {t} {is}."
        "|where did I put my {t}?|I can't find the {t}."
        "|I am looking for the {t}.|where did I hide the {t}?|in which place {is} the {t}?",
        "{is} the {t} in the {v}?|{is} my {t} in the {v}?|did I put the {t} in the {v}?",
    ),
    (
        "when",
        "time",
        "the {t} is at {v}",
        "the {t} is at {v}.|the {t} starts at {v}.|I have a {t} at {v}.|my {t} is at {v}.|there is a {t} at {v}."
        "|the {t} begins at {v}.|we have the {t} at {v}."
        "|remember, the {t} is at {v}.|the {t} is set for {v}.|please note the {t} at {v}.|our {t} is at {v}."
        "|the {t} has been moved to {v}.",
        "when is the {t}?|at what time is the {t}?|what time is the {t}?|when does the {t} start?|when is my {t}?"
        "|what time does the {t} start?|when do I have the {t}?"
        "|do you know when the {t} is?|tell me when the {t} is.|what time is my {t}?|when does my {t} begin?"
        "|when should I be at the {t}?|what is my {t} time?|what is the time of the {t}?|what is the {t} time?"
        "|when is our {t}?",
        "is the {t} at {v}?|does the {t} start at {v}?|is my {t} at {v}?",
    ),
    (
        "date",
        "date",
        "the {t} is on {v}",
        "the {t} is on {v}.|we have the {t} on {v}.|my {t} is on {v}.|the {t} takes place on {v}."
        "|the {t} will be on {v}.|I have a {t} on {v}.",
        "on what day is the {t}?|what day is the {t}?|on which date is the {t}?|what date is the {t}?"
        "|on which day is my {t}?|which day is the {t}?",
        "is the {t} on {v}?|is my {t} on {v}?",
    ),
    (
        "room",
        "room",
        "the {t} is in room {v}",
        "the {t} is in room {v}.|the {t} takes place in room {v}.|we meet for the {t} in room {v}."
        "|my {t} is in room {v}.|room {v} is for the {t}.",
        "in which room is the {t}?|what room is the {t} in?|which room is the {t} in?|in what room is my {t}?"
        "|which room do I need for the {t}?",
        "is the {t} in room {v}?",
    ),
    (
        "price",
        "price",
        "the {t} cost{t_s} {v}",
        "the {t} cost{t_s} {v}.|I paid {v} for the {t}.|the price of the {t} is {v}.|the {t} {is} {v}."
        "|they want {v} for the {t}.|the {t} would cost {v}.",
        "how much {is} the {t}?|what {is} the price of the {t}?|how much did I pay for the {t}?"
        "|how much do they want for the {t}?|what did the {t} cost?"
        "|do you know the price of the {t}?|what is the cost of the {t}?|how expensive {is} the {t}?",
        "is the price of the {t} {v}?|did I pay {v} for the {t}?",
    ),
    (
        "colour",
        "colour",
        "the {t} {is} {v}",
        "the {t} {is} {v}.|my {t} {is} {v}.|the colour of the {t} is {v}.|I painted the {t} {v}."
        "|the {t} {have} a {v} colour.|our {t} {is} {v}.",
        "what colour {is} the {t}?|what is the colour of the {t}?|what colour {is} my {t}?"
        "|which colour {have} the {t}?|what color {is} the {t}?"
        "|what is the color of my {t}?",
        "{is} the {t} {v}?|{is} my {t} {v}?",
    ),
)
COUNT_TELL = (
    "{I} {have} {v} {t}.|there are {v} {t} at {my} place.|{I} own{s} {v} {t}.|{I} got {v} {t}.|{I} counted {v} {t}."
    "|{I} {have} exactly {v} {t}."
    "|remember that {I} {have} {v} {t}.|in total {I} {have} {v} {t}."
)
COUNT_ASK = (
    "how many {t} {do} {I} have?|how many {t} {do} {I} own?|what is the number of {my} {t}?"
    "|how many {t} did I say {I} {have}?|do you know how many {t} {I} {have}?"
    "|tell me how many {t} {I} {have}.|how many {t}?|how many {t} {have} {I} got?"
    "|do you remember how many {t} {I} {have}?"
)
COUNT_ANSWER = "{I} {have} {v} {t}"
COUNT_CHECK = "{do} {I} have {v} {t}?"
COUNT_WHO = "who has {v} {t}?"
LIST_TELL = (
    "my {np} list: {v}.|on my {np} list are {v}.|put {v} on my {np} list.|my {np} list has {v}."
    "|for the {np} list I need {v}.|please note my {np} list: {v}."
    "|add {v} to my {np} list."
)
LIST_ASK = (
    "what is on my {np} list?|what's on my {np} list?|tell me my {np} list.|read me my {np} list."
    "|what did I put on my {np} list?|show me my {np} list."
    "|what do I have on my {np} list?|can you repeat my {np} list?|my {np} list please|do you remember my {np} list?"
)
LIST_ANSWER = "your {np} list has {v}"
# what stands for an answer whose value was never told, by slot or thing: the same words as the answer up to the value,
# so that told and not told part where the value is looked for; all other facts say MISSING_VALUE there
MISSING_VALUE = "something you have not told me"
MISSING_SLOTS = {
    "live": "{I} live{s} in a place you have not told me",
    "from": "{I} {am} from a place you have not told me",
    "going": "{I} {am} going to a place you have not told me",
    "age": "{I} {am} an age you have not told me",
    "job": "{I} work{s} as something you have not told me",
    "employer": "{I} work{s} at a place you have not told me",
    "plays": "{I} play{s} the instrument you have not told me",
    "drives": "{I} drive{s} a car you have not told me",
    "birthday": "{my} birthday is on a day you have not told me",
    "wants": "{I} want{s} a thing you have not told me",
}
MISSING_THINGS = {
    "place": "the {t} {is} in the place you have not told me",
    "when": "the {t} is at a time you have not told me",
    "date": "the {t} is on a day you have not told me",
    "room": "the {t} is in a room you have not told me",
    "price": "the {t} cost{t_s} an amount you have not told me",
    "colour": "the {t} {is} a colour you have not told me",
    "count": "{I} {have} a number of {t} you have not told me",
}
