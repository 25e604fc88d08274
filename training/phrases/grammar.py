"""Ways to say things as patterns: `(a|b)` is a choice, so a line stands for hundreds of sentences. Training only.

Markers are those of `facts` and `slots`. What the evaluation keeps for itself is refused where the patterns are used.
"""

from __future__ import annotations

from training.phrases import pattern_lines

NOUN_TELL = pattern_lines(
    """
    (here is|here's|this is|there is|now comes|you get|I send you|take down|I give you|next comes|have) {my} {np} (
    |for you|for the list|for the file|again|to keep|in full|to note|once more|for your memory|as promised|for today
    |in writing|so you have it|to remember|as you asked|if you need it|finally|for the next time)(:|;| -|, it's
    |: it is|,) {v}
    {my} {np}(,| -|;) (as you know|you see|if you must know|I believe|for what it's worth|in case you ask
    |to be honest|as it happens|mind you|once and for all|as I said|believe it or not|in the end)(, is|, was| - it's
    |, it is|; that is|, would be) {v}
    (listen|look|now|so|well|okay|right|first|then|also|secondly), (the {np} of mine|one {np} I have
    |the {np} that is mine|the only {np} of {me}|a {np} I call my own) (is|was|would be|will be|is called|has been) {v}
    (please |now |just |kindly note, |)(memorise|note down|keep|remember|store|write|save|hold on to|learn|take|record
    |log|file|keep in mind) {v}(, |; |. |: | - |, because |, since |, as )(it is|it's|that is|that's|this is|which is
    |that one is|it happens to be|it was|that would be|it will be) {my} {np}
    (I give you|here comes|here you have|there is|this one is|look at|we have|I got|I was given|they gave me
    |I write down|I now have|I want you to have|I would ask you to keep|I'd ask you to memorise
    |I hope you can remember|you must remember|you should keep|you need to know) {v}(, |; |. |: | - |, and )(it is
    |it's|that is|that's|this is|which is|it should be|that was|I use it as|I call it|we took it as|it counts as
    |it serves as|it works as) {my} {np}
    (I'd want|I would love|I'd need|I'm asking|I ask|I beg|I told|we want|they want) you to (hold|note|learn|save|keep
    |store|have|know|take) {v}(;|,| -|:|.|, for) (it's|that's|it is|this is|there you have|here we have) {my} {np}
    {v}(, | - |; |. |... )(that's|that is|it's|it is|this is|that would be|there you have) {my} {np}
    {v} (is|was|became|remains|would be|will be|is now|is still|works as|counts as|was picked as|was chosen as
    |was set as|is listed as|goes in as|stands for) {my} {np}
    {my} {np}(, | - |: |; |. |? |... )(it is|it's|that is|that's|this is|make it|write|note|say|put|remember|use|take
    |I have|we have|I got|I'd say) {v}
    (my|the|this|our) (note|paper|form|card|page|book|letter|contract|screen|list|label|sticker|message|mail) (says
    |reads|states|shows|tells me|gives|has|lists)( that|:|) {my} {np} (is|as|:|equals|=) {v}
    (set|put|enter|file|store|save|keep|log|record|register|mark|note|list|add|take|make) {my} {np} (as|to|down as
    |in as|to be|with|under|by the value|=) {v}
    (as|for|about|regarding|concerning|with|under|when it comes to|speaking of|talking about|in the matter of
    |on the subject of) {my} {np}(, |: | - | )(it is|it's|that is|that's|I have|we have|take|use|put|note|write|say
    |there is|you can use|you should know,) {v}
    {I} (chose|picked|took|got|found|set|selected|settled on|decided on|went for|stick{s} to|use{s}|go{es} with|gave
    |wrote) {v} (as|for) {my} {np}
    (somebody|they|the office|the bank|the clerk|my friend|a man|the system|the shop|a letter) (gave|sent|told|handed
    |offered|assigned|showed) {me} {v} (as|for) {my} {np}
    (in case|if|when|whenever|should) (anyone|somebody|someone|they|people|you|the others) (ask|asks|need|needs|want
    |wants|wonder|wonders)(,| about it,| for it,) {my} {np} (is|would be|will be|was) {v}
    (know|learn|understand|notice|mind|believe|see|hear|trust me|make sure you know|be sure)( that|,|:) {my} {np} (is
    |was|will be|has been|became|stays|reads|equals) {v}
    the {np} (that belongs to {me}|that {I} use{s}|that {I} {have}|{I} got|{I} chose|which {I} use{s}
    |{I} like{s} to use|{I} will need) (is|was|will be|would be|reads|:) {v}
    {my} (own |dear |very own |actual |real |current |present |official |final |full |old |new |)(
    |only |main |first |usual ){np} (is|was|would be|will be|is given as|goes as
    |is written|is spelled|turned out as|came out as) {v}
    """
)
NOUN_ASK = pattern_lines(
    """
    (what|which|what exactly|so what|and what|now what|but what|what then) (is|was|would be|will be|might be|could be
    |should be|did I say is|do you think is|do you know is|did we say was) {my} {np}(?|, please?| again?| now?| then?
    | by the way?| please| once more?)
    (tell|show|give|read|write|send|repeat|spell|name|recall|state|remember|find|get|fetch|look up|bring back
    |say) (me |us |out |back |)({my} {np}|what {my} {np} is|what {my} {np} was|the value of {my} {np})(.|, please.
    | again.| once more.| if you can.| now.|)
    (do|did|can|could|will|would|might|should) you (know|remember|tell me|recall|find|look up|repeat|give me|show me
    |say|write down|state|name|check|read out|bring up) (what {my} {np} is|{my} {np}|what {my} {np} was
    |what I told you about {my} {np})(?|, please?| again?| for us?| please| now?| quickly?)
    (I|we|they|people|my friends|the others|somebody) (must|should|want to|would like to|wish to|have to|forgot to
    |like to|hope to|try to|cannot|can't|could not) (know|remember|recall|find|hear|look up|see|be told|be reminded of
    |learn) {my} {np}(.| now.| again.|, what is it?|, which is it?|, can you say it?|, do you know it?|)
    (I|we) (lost|forgot|can't find|cannot recall|no longer have|am not sure about|never wrote down|wonder about
    |have no idea about|don't remember|mixed up|need|want|require|look for|miss) {my} {np}(.|, what is it?
    |, what was it?|, which one is it?|. what is it?|. can you help?|, help me.|. do you have it?| now.|)
    (a while ago|before|yesterday|just now|in the beginning|at the start|some time ago|a moment ago|once) I (told you
    |gave you|said|wrote|named|typed|noted|spoke about|talked about|sent you) {my} {np}(, what is it?|. what was it?
    |, what did I say?|. which one was it?|, remember?|. can you repeat it?|, what was that?)
    (let me|let us|let's|I'd like to|I want to|I would like to|time to|may I|can we) (see|hear|test|ask|verify|confirm
    |know|be sure|go over|look at|review|compare|read
    |find out)(, | if you know |: |, quickly, | again |, once more: | - )(what is|what was|what's|which is|tell me
    |do you know|say) {my} {np}(?|, please?| again?|)
    (what|which value|which one|which answer|what entry|what text) (do you have|did you note|did you save
    |did you store|is written|is stored|is noted|stands|is listed|is there|shall I write|should I give|did I enter
    |have we got|was recorded) (for|as|under|about|beside|next to|in place of) {my} {np}(?|, please?| again?| now?|)
    (remind|inform|update|help|assist|answer|brief|advise) me( please|): (what is|what's|what was|which is|tell me
    |say) {my} {np}(?|.| again?|)
    (someone|a friend|the boss|the clerk|he|she|my neighbour|the form|the website|the machine|the man) (asks for|wants
    |needs|wants to know|is asking about|requires|would like) {my} {np}(, what is it?|. what do I say?
    |, what was it again?|. tell me.|, so what is it?|. what should I write?|)
    {my} {np}( is| was| would be| reads|, that is|, you know,| again|, please, is|)(?|...|.|, what?|, which?
    |, tell me.|, do you know?|, what was it?|)
    (is|was) there (any |some |)(note|entry|record|information|word|hint|memory) (of|on|about|for) {my} {np}?
    (how|what) (did I set|did I choose for|did I pick for|did I have for) {my} {np}?
    """
)
KIN_TELL = pattern_lines(
    """
    (may I present|I present|let me present|please meet|here comes|welcome|everyone, this is|time to meet|I bring
    |let me bring in|you should meet|a word on|I want to present|let us greet|now about) {my} {k}(:|,| -|;|: it's
    |, it is|. I mean|, namely) {v}
    (this is|that is|here is|look, |say hello to|meet|greet|you know|I talk about|I mean|remember|memorise
    |note) {v}(, |; |. | - |, and )(he is|she is|it is|that is|this is|he's|she's|it's|that's|who is
    |you know,) {my} {k}
    {v}(, | - |; |. |... )(that's|that is|it's|it is|this is|he's|she's|there is|so we call|so I call
    |that would be) {my} {k}
    {v} (is|was|became|remains|is still|is now|happens to be|has been) {my} {k}
    {my} {k}(, | - |: |; |. |? )(he is|she is|it is|it's|that is|that's|called|named|name|goes as|we say|I say
    |I call him|I call her|everyone says) {v}
    {my} (dear |lovely |old |young |little |big |own |good |crazy |new |only |)({k}) (is|was) (called|named|known as
    |christened|baptised|addressed as|registered as|nicknamed) {v}
    (they|people|we|all|the others|most people|my parents|the kids|friends|neighbours) (call|named|say|call out to
    |greet|address|refer to|shout for|know) {my} {k} (as |by the name |by the name of |simply |just |)({v})
    {I} ({have}|own{s}|know{s}|met|saw|called|visited|helped|like{s}|love{s}|miss{es}|phoned
    |invited) a {k}(, | - |; |. |, and )(the name is|its name is|his name is|her name is|that one is called|called
    |named|by name|known as) {v}
    (the |this |that )(name|word) (for|of|given to|used for|that fits) {my} {k} (is|was|will be|would be|stays) {v}
    the {k} (I have|at my house|in my life|in our family|who lives with me|that belongs to me|I told you about
    |I love) (is|is called|is named|has the name|goes by|is known as) {v}
    (when|if|whenever) (I|we|you) (say|hear|read|write|mention|call) {v}(, |: | )(I mean|it means|we mean
    |you know it is|that is|think of) {my} {k}
    (today|yesterday|last week|this morning|on the way|at home|in town) (I saw|I met|came|there was|I called
    |we visited|we talked to|I helped) {my} {k} {v}
    """
)
KIN_ASK = pattern_lines(
    """
    (what|how|so what|and what|what exactly|now what) (is|was|would be|did I say is|do you think is
    |might be) {my} {k} (called|named|known as|addressed as)(?| again?| please?| now?|, please?|)
    (what|which|which one|what then) (is|was|would be|could be) (the name of {my} {k}|{my} {k}'s name
    |the name that {my} {k} has|the name I gave {my} {k})(?| again?| please?|, please?|)
    (tell|show|give|write|repeat|spell|recall|state|remember|say|find|name) (me |us |out |back |)(the name of {my} {k}
    |what {my} {k} is called|{my} {k}'s name|who {my} {k} is)(.|, please.| again.| once more.| now.|)
    (do|can|could|will|would|did|should) you (know|remember|tell me|recall|repeat|give me|write|state|spell|look up
    |bring up) (what {my} {k} is called|{my} {k}'s name|the name of {my} {k}|how {my} {k} is called|who {my} {k} is)(?
    |, please?| again?| please|)
    (I|we|they) (lost|forgot|can't recall|never wrote down|mixed up|need|want|require|don't remember|wonder about
    |look for|would like) (the name of {my} {k}|{my} {k}'s name|what {my} {k} is called)(.|, what is it?
    |. what was it?|. can you help?|, help me.|)
    (who|and who|so who|who exactly|who then|who again) (is|was|might be|did I say is) {my} {k}(?| again?| please?
    |, please?|)
    (by|under) (what|which) name (do|did|would|will|can|should) (I|we|people|you|they|friends) (know|call|find|address
    |greet|meet) {my} {k}?
    (what|which) name (has|goes with|belongs to|fits|suits|is used for|was given to|do I use for
    |is that of) {my} {k}(?| again?)
    (what|which) name (does|did|should|would|may) {my} {k} (have|bear|carry|use|get|go by|answer with)(?| again?
    | now?)
    {my} {k}( is|, that is| was|, he is|, she is|'s name|'s name is|, the name| is called| is named)(?|...|, who?
    |, what?|, what was it?|, tell me.|, do you know?)
    (remind|inform|help|answer) me( please|): (what is|what's|who is|tell me|say) (the name of {my} {k}
    |{my} {k}'s name)(?|.|)
    (how|what) (do|did|should|can|would) (I|we|you|people) (call|name|greet|address|shout for) {my} {k}?
    """
)
# verbs of their own: key -> (tell, ask)
SLOTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "name": (
        pattern_lines(
            """
            (people|friends|my friends|they|all|everyone|most people|my family|others|kids|neighbours|you can|you may
            |folks) (call|name|address|greet|refer to|may call
            |write to) me (as |by the name |by the name of |simply |just |)({v})
            (I am|I'm|this is|it's me,|it is|here is|here speaks|this person is|the user is|you talk to|you chat with
            |you speak with|you have before you|the one who types is|my mother named me|I go as|I sign as
            |I answer when you say|I am known as) {v}
            (my|the) (name|first name|full name|real name|proper name|given name|name here|nickname) (is|was|would be
            |reads|goes|:|will always be|stays) {v}
            {v} (is|was|would be|will be) (my name|the name I have|the name they gave me|what people call me
            |how I am called|what I am called|who you are talking with|the name I use|me)
            (hello|hi|hey|good day|greetings|nice to meet you|good morning), (I'm|I am|my name is|it's|this is|call me
            |they call me) {v}
            """
        ),
        pattern_lines(
            """
            (what|which|so what|and what|what exactly|what again) (is|was|would be) (my name|the name of me
            |my own name|the name I have|the name I told you|the name I use|my first name)(?| again?| please?
            |, please?)
            (who|so who|and who) (am I|is this|is it|is talking to you|is typing|is the user|do you think I am
            |do you talk to|are you speaking with|do you have here|sits here)(?| again?| please?)
            (how|what) (do|will|would|can|did|are you supposed to|must|may|shall|might) you (call|name|address
            |greet) me(?| now?| then?| please?)
            (what|which) (name|word) (do|did|can|will|would|should|could) (you|people|others|friends|they|we) (use|say
            |know|have|give|write|choose|pick|take|keep) (for me|to call me|when you call me|when you greet me
            |when talking to me|about me|of mine)?
            (by|under|with) (which|what) name (am I known|am I known to you|do people know me|do I go
            |are you calling me|do you greet me|can you greet me|did I introduce myself|should I be called
            |do you have me|do you remember me)?
            (tell|say|give|repeat|write|spell|recall|state|remember) (me |us |out |)(my name|what my name is|who I am
            |how I am called|what I am called|the name I told you)(.|, please.| again.| now.|)
            (do|can|could|will|would) you (know|remember|recall|tell me|repeat|write|spell|state|use
            |greet me by) (my name|who I am|what I am called|how I am called|what name I have)(?| please?| again?
            |, please?)
            (greet me by name|use my name|call me by my name|say hello to me by name|my name, please|and my name?
            |so my name is?|I am called what?|I forgot my own name|I forgot who I am|guess who I am
            |you know me, don't you, so who am I?|did I tell you my name?)
            """
        ),
    ),
    "live": (
        pattern_lines(
            """
            (now |today |currently |at present |since last year |for years |)({I} live{s}|{I} {am} living
            |{I} reside{s}|{I} stay{s}|{I} dwell{s}|{I} {have} a house|{I} {have} a home|{I} {have} a flat
            |{I} rent{s} a room|{I} {am} at home|{I} found a home|{I} own{s} a house|{I} spend{s} the nights
            |{I} sleep{s}) (in|over in|out in|near|down in|up in|somewhere in|right in) {v}
            {my} (home|house|flat|apartment|place|address|family home|nest|room|base|home base|cottage) (is|lies
            |stands|is located|can be found|is to be found|is situated|is somewhere|is right) (in|near|over in|down in
            |up in|out in) {v}
            {I} (moved|went to live|relocated|came to live|chose to live|returned|settled|arrived to live) (in|to
            |over to|down in) {v}
            {v} (is|became|was made|is now|has become|remains) ({my} home|where {I} live{s}|{my} home town
            |{my} place to live|the town {I} live{s} in|the place {I} call{s} home|where {my} house is
            |the city of {my} home)
            (the|a) (town|city|place|village|country|spot|area) (where|in which) {I} live{s} (is|is called|is named
            |goes by) {v}
            """
        ),
        pattern_lines(
            """
            (where|where exactly|in which city|in which town|in what city|in what town|at which place|in which country
            |in which area|whereabouts) ({do}|did I say) {I} (live|live now|reside|stay|dwell|sleep|have a home
            |have a house|spend the nights|have {my} home)(?| now?| again?| please?| today?)
            (where|in which city|in which town|at what place|in which place) is {my} (home|house|flat|place|apartment
            |room|home now|address|residence)(?| again?| please?| now?| located?)
            (which|what) (city|town|place|country|area|spot) (is|was|is it that is|do you know as|would be) {my} (home
            |home now|place to live|residence|home town now)(?| again?| please?)
            (tell|say|give|repeat|write|recall|state|remember) (me |us |out |)(where {I} live{s}|where {my} home is
            |the town {I} live{s} in|{my} city|which town {I} live{s} in|where {my} house is
            |the place where {I} live{s})(.|, please.| again.| now.|)
            (do|can|could|will|would) you (know|remember|recall|tell me|repeat|state|write) (where {I} live{s}
            |where {my} home is|the town {I} live{s} in|which city {I} live{s} in|where {I} stay{s}
            |where {my} house is)(?| please?| again?| now?)
            (if|when|suppose) (someone|a friend|people|they|you) (want|wants|wanted|look|looks) (to visit {me}
            |for {my} home|to see {my} home|to find {my} house)(, where is it?|, where do they go?
            |, which town is it?)
            (where do letters to {me} go?|where {do} {I} go home to?|from where {do} {I} write?|{my} home town now?
            |where {am} {I} living?|where {am} {I} settled?|what is the name of the place where {I} live{s}?)
            """
        ),
    ),
    "age": (
        pattern_lines(
            """
            {I} ({am} now|turned|just turned|became|will soon be|got to be|{have} been|celebrated|count{s}
            |{am}) {v}( years| years old| years of age|)
            {my} (age|years|age today|current age|age now|exact age) (is|are|comes to|equals|was given as|stands at
            |amounts to|:|makes) {v}
            {v} (is|are|was|makes|would be) ({my} age|how old {I} {am}|the number of {my} years|the years {I} {have}
            |the age {I} {have}|{my} age now)
            (on|at|since) (my last birthday|the last birthday|the party|spring|last month) {I} (turned|became|was
            |got) {v}
            """
        ),
        pattern_lines(
            """
            (how old|how many years old|of what age|at which age|how old exactly|so how old|and how old) (am|are
            |would you say am|do you think am) {I}(?| now?| again?| please?| today?| this year?)
            (what|which|what exactly) (is|was|would be|will be) ({my} age|the age of {me}|the number of {my} years
            |{my} age today|{my} age in years)(?| again?| please?| now?)
            (tell|say|give|repeat|write|recall|state|remember|guess) (me |us |out |)({my} age|how old {I} {am}
            |how many years {I} {have}|the age of {me})(.|, please.| again.| now.|)
            (do|can|could|will|would) you (know|remember|recall|tell me|repeat|state|write) ({my} age|how old {I} {am}
            |what {my} age is|how many years old {I} {am})(?| please?| again?| now?)
            (how many|what number of) (years|birthdays|candles|years of life) (do|did|have|should) {I} (have|count|had
            |get|live|celebrate)(?| so far?| by now?)
            ({my} age, please|and {my} age?|which age did I tell you?|what did I say about {my} age?
            |{my} age is which number?)
            """
        ),
    ),
    "going": (
        pattern_lines(
            """
            (soon |next week |tomorrow |on Monday |in summer |today |this year |)({I} {am} going|{I} {am} travelling
            |{I} {am} heading|{I} {am} flying|{I} {am} driving|{I} {am} sailing|{I} {am} moving on|{I} {am} off
            |{I} {am} on {my} way|{I} travel{s}|{I} fl{ies}|{I} head{s} out|{I} go{es}) (to|over to|down to
            |all the way to) {v}
            {my} (next |coming |planned |big |short |long |)(trip|journey|tour|holiday|voyage|flight|ride|travel
            |vacation|excursion|drive|cruise) (goes to|leads to|is to|ends in|takes {me} to|brings {me} to|will be to
            |heads to|is for|aims at|has the goal|finishes in) {v}
            {I} (booked|planned|bought|reserved|arranged|paid for|won|have|got|prepared|organised) a (trip|journey
            |tour|holiday|flight|ticket|ride|voyage|seat on the train|vacation|train ride|cruise) to {v}
            {v} (is|will be|is going to be|would be) ({my} destination|the goal of {my} trip|where {I} travel{s} next
            |where {I} {am} going|where the journey ends|{my} next stop|the place {I} will visit
            |where {my} flight goes)
            {I} (will visit|plan{s} to visit|want{s} to see|intend{s} to go to|hope{s} to reach|must go to
            |will go and see|{have} to be in|will spend the holidays in) {v}
            """
        ),
        pattern_lines(
            """
            (where|to which town|to what town|to which city|to which country|to what place|in which direction|whereto
            |to which destination) {am} {I} (going|travelling|heading|flying|driving|off|sailing|moving on|on {my} way
            |going to travel|bound)(?| next?| soon?| again?| please?| then?)
            (where|to which town|to what place|to which city) (does|did I say|will
            |would) {my} (next |coming |planned |big |short |)(trip|journey|tour|holiday|voyage|flight|ride|vacation
            |cruise) (lead|go|end|take {me}|bring {me}|head|finish|lead {me})(?| to?| again?| please?)
            (what|which) (town|city|place|country|destination|spot|goal) (is|was|will be
            |would be) (the goal of {my} trip|{my} destination|the end of {my} journey|{my} next stop
            |where {I} travel{s}|the aim of {my} journey|the target of {my} tour|on {my} ticket)(?| again?| please?)
            (what|which) (town|city|place|country) (will|{do}|shall) {I} (visit|travel to|fly to|going to visit
            |plan to see|want to see|go to|reach)(?| next?| soon?| again?)
            (tell|say|give|repeat|write|recall|state|remember) (me |us |out |)(where {I} {am} going|{my} destination
            |where {my} trip goes|where {my} journey leads|the goal of {my} journey|where {I} {am} heading
            |where {I} will travel)(.|, please.| again.| now.|)
            (do|can|could|will|would) you (know|remember|recall|tell me|repeat|state) (where {I} {am} going
            |{my} destination|where {my} journey leads|where {my} trip goes|where {I} {am} travelling
            |where {my} journey ends)(?| please?| again?| now?)
            (where is {my} journey headed?|for which place did {I} book?|which ticket {do} {I} have?
            |where {am} {I} off to next?|where will {I} arrive?|where will {I} be next?|where did {I} plan to go?
            |where did {I} want to travel?)
            """
        ),
    ),
    "birthday": (
        pattern_lines(
            """
            {my} (birthday|birthday party|next birthday|special day|day of birth|birth date|date of birth) (is|is on
            |comes on|will be on|takes place on|is always on|happens on|arrives on|was on) {v}
            {I} (celebrate{s}|{have}|enjoy{s}|mark{s}) ({my} birthday|a birthday|the birthday|{my} big day) on {v}
            (on|every year on|always on|each) {v} (is {my} birthday|{I} {have} {my} birthday
            |{I} celebrate{s} {my} birthday|{I} get{s} presents|{I} turn{s} a year older|comes {my} birthday)
            {v} (is|was|would be) ({my} birthday|the day {I} {was} born|{my} date of birth|when {I} celebrate{s}
            |{my} day of birth|the date of {my} birthday)
            """
        ),
        pattern_lines(
            """
            (when|on which day|on what date|on which date|what day|what date) (is|was|will be|comes
            |did I say is) {my} (birthday|next birthday|birthday party|day of birth|date of birth)(?| again?| please?
            | this year?)
            (when|on which day|on what date|on which date) (do|did|will|can|shall) (we|{I}|people|you) (celebrate|have
            |mark|enjoy|expect|note) {my} birthday(?| again?| please?| this year?)
            (tell|say|give|repeat|write|recall|state|remember) (me |us |out |)({my} birthday|when {my} birthday is
            |the date of {my} birthday|on which day {my} birthday is|{my} date of birth)(.|, please.| again.| now.|)
            (do|can|could|will|would) you (know|remember|recall|tell me|repeat|state) ({my} birthday
            |when {my} birthday is|what day {my} birthday is|the date of {my} birthday
            |when {I} {have} {my} birthday)(?| please?| again?)
            (when|on which day) (does|will|did) {my} birthday (come|take place|happen|arrive|come round|start)(?
            | again?| please?| this year?)
            (when {was} {I} born?|when should people send {me} presents?|on which day {do} {I} get a cake?
            |{my} birthday is when?|and {my} birthday?|what is the date of {my} birthday?)
            """
        ),
    ),
}
CHANGE_LEADS = pattern_lines(
    """
    (oh|ah|well|hm|hmm|wait|no|sorry|okay|right|listen|look here)(, |... | - )(I meant|I mean|rather|I was wrong
    |that was wrong|I mixed it up|that has changed|it changed|forget that|not so|that's old|I have to correct that
    |let me fix it|let me change that|that is not right)(, |: |. | - )
    (small|quick|one|big|another|a little|important|last) (correction|change|update|fix|mistake|typo|error of mine
    |edit)(: |, | - |. )
    (please |now |)(change|correct|fix|replace|overwrite|edit|revise|adjust) (it|that|this|the note|the old one
    |your notes|what I said|the entry)(: |, | - |. )
    (that|it|this|what I said) (is not right|was wrong|is old|changed|is out of date|was a mistake|was a typo
    |is no longer true|does not hold any more)(: |, | - |. |, now )
    """
)
NAME_ASK = pattern_lines(
    """
    (what|and what|so what|what exactly) (is|was|would be) your (name|own name|full name|first name|proper name)(?
    | again?| please?|, please?|, assistant?|, my friend?)
    (what|how) (do|can|may|shall|must|would|could|do people|did they|does one) (I call|I name|call|name|we call
    |you want me to call|you like to be called|you call yourself) (you|yourself)(?| please?| then?| today?)
    (tell|say|give|write|repeat|spell|reveal|state|introduce) (me |us |)(your name|what you are called
    |how you are called|the name you have|your own name|who you are by name)(.|, please.| again.| now.|)
    (do|can|could|will|would) you (have|tell me|say|give me|reveal|spell|write|know|state) (your name|a name
    |your own name|what you are called|the name you use)(?| please?|, please?)
    (by|under|with|to) (which|what) name (do|should|can|may|could|did) (I|we|people|users|one|they) (call|know|greet
    |find|name|talk to|reach) you?
    (I|we) (forgot|want to know|would like to know|need|did not catch|missed|don't know|wonder about
    |never heard) (your name|what you are called|how you are called)(.|, what is it?|, tell me.|. what is it?|)
    """
)
PERSONA = pattern_lines(
    """
    (you are|you're|you shall be|you will be|be|act as|play|pretend to be|behave like|talk like|chat as|work as
    |help as|reply as|respond as|pose as|stay) {name}(.|, the assistant.|, and nobody else.| today.| in this chat.
    |, a helper.|, always.)
    (your|the assistant's|the bot's|this helper's|the model's|the agent's) (name|own name|first name|full name
    |character|identity|role) (is|shall be|will be|reads|:|must be|is set to|was chosen as) {name}.
    (people|visitors|clients|customers|the guests|all users|callers|we|the team|everyone here) (call|named|address
    |greet|refer to|will call|may call) you {name}.
    (if|when|whenever) (asked|somebody asks|the user asks|they ask|anyone wants to know)( for your name| who you are
    |), (say|answer|reply|you are|tell them|it is|say you are) {name}.
    {name} (is|was|will be|shall be) (your name|the name you use|who you play|how you are called|the assistant
    |the name of this assistant|your role here).
    """
)
REQUEST = pattern_lines(
    """
    (please|now|quickly|first|next|then|and|also|well,|ok,|hey,|so,|right,|today|right away,|for once|if you can,
    |when ready,|when you can,) {do}(.|, please.| for me.| now.| today.|, thanks.|, okay?|)
    (can|could|would|will|may|might) (you|we|I have you|you please|you now|you quickly|you perhaps|you also) {do}(?
    |, please?| for me?| now?| today?|)
    (I|we|my friend|the boss|somebody|she|he) (need|needs|want|wants|would like|wish|has|have|asked|hoped|told me
    |decided|plan|forgot|ought) (you |)to {do}(.| now.| today.| at once.|, please.|)
    (is it|would it be|it is|it would be|it might be|I find it) (possible|okay|fine|good|time|right|useful|wise|best
    |great|alright|important|urgent|necessary) to {do}(?|.|, right?| now?|)
    (I'd|I would|we'd|we would) (love|like|prefer|want|be happy|be pleased|be thankful
    |appreciate it) (for you |)to {do}(.|, please.| now.|)
    (your|the|my|our|one|a|another) (task|order|mission|job today|plan|wish|goal|next job|command|aim|idea) (is
    |would be|was|for you is|now: |today is) to {do}(.|, please.|)
    (what about|how about|let's|let us|why not|help me|help us|go|try to|remember to|don't forget to|be sure to
    |do not wait to|come on,|hurry and|get up and) {do}(.|?| now.|)
    (my|the) (boss|mother|friend|plan|list|note|calendar) (says|said|tells me|wants me|asks me|reminds me) to {do}(.
    |, so please do it.|, help me.|)
    """
)
EXPLICIT = pattern_lines(
    """
    (with|using|having|taking|for|on|at|under|by) (the |a |)({p}) (of |= |equal to |being |set to |as |at |)({v})
    (and |where |so that |but |)(the |)({p}) (is|must be|has to be|will be|ought to be|equals|shall be|needs to be|=|:
    |is set to|becomes|is to be) {v}
    (set|put|make|choose|pick|enter|use|fix|keep|have|write|give) (the |)({p}) (to|as|at|to be|=|with) {v}
    (with|using|and|use|take|choose|pick|put|enter|give|having) {v} (as|for|as the|for the|in|under|as its
    |in the field) {p}
    ({p}: {v}|{p} {v}|{p} = {v}|the {p}, {v}|{p}, that is {v}|{v} being the {p}|{v} is the {p}|whose {p} equals {v}
    |{p} -> {v}|"{v}" as {p})
    """
)
