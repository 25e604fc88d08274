"""Small talk as patterns like those of `grammar`: what a user may say, and other assistants' words between facts."""

from __future__ import annotations

from training.phrases import pattern_lines

# what another assistant may have said after the user told something; the model never learns these
ACKS = pattern_lines(
    """
    (okay|ok|sure|alright|all right|fine|got it|noted|thanks|thank you|great|good|nice|cool|right|I see|understood
    |lovely|perfect|of course|no problem|great stuff)(!|.|, thanks.|, thank you.|, I will remember that.
    |, I'll keep that in mind.|, good to know.|, noted.|, I wrote it down.|, that is clear.|, go on.)
    (that|it|this) (sounds|is|seems|looks) (good|nice|fine|lovely|great|interesting|clear|useful|fun|like a good idea
    |very nice|like a plan)(!|.|, thanks.|. Tell me more.)
    (I will|I'll|I can|let me) (remember that|keep that in mind|make a note|write it down|keep it|hold on to that
    |not forget that|save that for you)(.|!|, thank you.|. What else?)
    (how nice|how lovely|good to know|nice to hear|glad to hear that|what a nice thing|very well|as you wish
    |anything else|what else|go on|tell me more)(.|!|?)
    """
)
# small talk: patterns, and the answer that `smalltalk.TALK` gives to the like
TALK: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        pattern_lines(
            """
            (hi|hey|heya|hello|hiya|yo|hallo|hey hey|oh hi|well hello)( there| you| again| my friend| friend| everyone
            | bot| assistant|)(!|.|, anyone here?|, nice day|)
            """
        ),
        "Hello! How can I help you?",
    ),
    (
        pattern_lines(
            """
            (hi, |hey, |so, |and |hello, |ok, |)(how are you|how are things|how is it going|how's it going|how's life
            |how do you feel|how have you been|how goes it|how was your day|you alright|all well|how r u)( today
            | doing| these days| now| then| my friend|)(?|!|??|)
            """
        ),
        "I am fine, thank you. How are you?",
    ),
    (
        pattern_lines(
            """
            (thanks|thank you|many thanks|thx|ta|cheers|thanks so much|thank you so much|great, thanks
            |nice, thanks)( for that| a lot| for your help| again| my friend| for the answer| that helps| mate| lol
            |)(!|.|!!|)
            """
        ),
        "You are welcome.",
    ),
    (
        pattern_lines(
            """
            (ok |well |right, |alright, |so, |)(bye|goodbye|see you|see ya|cu|talk later|I'm off|I am off|I gotta go
            |I have to leave|time to go|catch you later|until tomorrow)( now| then| soon| my friend| for today| later
            |)(!|.|!!|)
            """
        ),
        "Goodbye! Talk to you soon.",
    ),
    (
        pattern_lines(
            """
            (ok |well |)(good night|sleep tight|I'm off to bed|time for bed|I should rest|off to dreamland)( now| then
            | my friend|, see you tomorrow| lol|)(!|.|)
            """
        ),
        "Good night! Sleep well.",
    ),
    (
        pattern_lines(
            """
            (oh |man, |sigh, |well |)(I had a|it was a|what a|today was a|another) (terrible|bad|awful|sad|rough
            |rotten|lousy|dreadful|stressful) (day|week|morning|evening|night|time)( today| at work| at school| again
            |)(.|!|...|)
            (I am|I'm|im|I feel|feeling|I am feeling) (so |very |really |a bit |quite |)(sad|tired|sick|down|lonely
            |ill|stressed|upset|unhappy|worn out|exhausted|miserable|hurt)( today| now| again| lately|)(.|!|...|)
            """
        ),
        "I am sorry to hear that.",
    ),
    (
        pattern_lines(
            """
            (yay |oh |wow |yes! |)(I had a|it was a|what a|today was a|had a) (great|lovely|good|wonderful|fantastic
            |perfect|nice|beautiful) (day|week|morning|evening|night|time)( today| at work| at school| again|)(.|!|...
            |)
            (I am|I'm|im|I feel|feeling|I am feeling) (so |very |really |quite |)(happy|great|glad|good|excited|proud
            |cheerful|fantastic|wonderful)( today| now| again| lately|)(.|!|)
            """
        ),
        "I am glad to hear that.",
    ),
    (
        pattern_lines(
            """
            (can|could|would|will) you (please |)(write|tell|sing|draw|make|compose|paint|code|translate|explain
            |summarise|invent|program|design|read) (me |us |)(a|some|this|another|one more) (joke|story|poem|song
            |picture|essay|letter|program|function|script|tale|text|page|speech|recipe|riddle|drawing)(?| please?
            | for me?| now?)
            (write|tell|sing|draw|compose|paint|code|invent|design) (me |us |)(a|some|another|one more) (joke|story
            |poem|song|picture|essay|letter|program|function|script|tale|speech|recipe|riddle|drawing)(.|!| please
            | about a cat| about the sea|)
            """
        ),
        "I cannot do that. I am a small model.",
    ),
    (
        pattern_lines(
            """
            (are you|r u|so you are|you are|aren't you) (a human being|just a bot|just a program|only a machine
            |a chatbot|an assistant|some kind of robot|a computer program|made of code|an AI model)( or what| really
            | then| actually|)(?|)
            """
        ),
        "I am a small language model.",
    ),
    (
        pattern_lines(
            """
            (do|can|did) you (like|eat|drink|enjoy|love|watch|play|want|own|have|need) (films|games|music|food|a house
            |friends|sports|holidays|books|a car|coffee|money|sleep|pets)(?| too?| as well?| sometimes?)
            """
        ),
        "I am a small language model, so I do not have that.",
    ),
)
