"""Ordinary English words for the training texts. Evaluation never draws from these lists: it invents its own words."""
# ruff: noqa: SIM905

from __future__ import annotations

PEOPLE = tuple(
    """Anna Ben Clara David Emma Felix Grace Henry Ivy Jack Kate Leo Mia Noah Olivia Paul Quinn Rosa Sam Tina Uma
    Victor Wendy Xander Yara Zoe Alice Bob Carol Daniel Elena Frank Gina Hugo Irene James Karen Liam Maria Nina
    Oscar Peter Rachel Simon Tom Ursula Vera Walter Amir Bella Chen Diego Eva Fatima George Hana Ian Julia Kevin
    Laura Mark Nora Omar Priya Ravi Sara Theo Alex Chris Jordan Robin Max Lucy Ella Ruth Adam Sophie Martin Nadia
    Yuki Kenji Lena Otto John Mary Linda Susan Robert William Helen Steve Jenny Amy Lily Charlie Buddy Bruno Luna
    Rex Milo Daisy Rocky Coco Smith Brown Miller Garcia Lopez Schmidt Weber Novak Rossi Silva Khan Singh Tanaka Kim
    Wong Jones Taylor Clark""".split()
)
PLACES = tuple(
    """London Paris Berlin Madrid Rome Vienna Prague Dublin Lisbon Oslo Boston Chicago Denver Seattle Tokyo Kyoto Seoul
    Delhi Mumbai Cairo Lagos Nairobi Sydney Toronto Lima Quito Geneva Zurich Munich Hamburg Milan Naples Porto
    Athens Warsaw Budapest Helsinki Stockholm Amsterdam Brussels Glasgow Leeds York Bath Austin Dallas Miami
    Portland Phoenix France Germany Spain Italy Canada Mexico Brazil Japan China India Egypt Kenya Norway Sweden
    Poland Greece""".split()
)
COLOURS = tuple(
    """red blue green yellow orange purple pink brown black white grey silver golden violet turquoise beige crimson
    navy maroon olive cyan magenta ivory amber""".split()
)
FOODS = tuple(
    """pizza pasta soup rice bread cheese salad curry sushi noodles pancakes waffles stew beans potatoes fish chicken
    tomatoes carrots spinach mushrooms chocolate cake cookies honey butter eggs yogurt apples bananas grapes oranges
    lemons cherries plums pears mangoes peaches strawberries nuts peanuts onions garlic lasagna tacos ramen
    dumplings porridge sausages ham salmon lentils pumpkin corn popcorn muesli toast jam""".split()
)
DRINKS = tuple(
    "tea coffee water milk lemonade cocoa juice cola cider beer wine smoothie ginger-tea soda espresso".split()
)
ANIMALS = tuple(
    """dog cat parrot horse hamster rabbit turtle goldfish pony goat hen duck lizard snake ferret donkey mouse canary
    budgie tortoise gecko guinea-pig""".split()
)
WILD = tuple(
    """tiger lion owl fox whale dolphin penguin bear wolf eagle otter koala panda elephant giraffe zebra monkey
    hedgehog squirrel seal shark frog bee butterfly swan raven badger moose lynx""".split()
)
JOBS = tuple(
    """baker teacher nurse doctor driver pilot farmer painter singer writer carpenter gardener plumber engineer lawyer
    cook waiter tailor librarian photographer mechanic dentist chemist programmer designer clerk sailor firefighter
    musician actor journalist builder electrician barber translator student accountant""".split()
)
HOBBIES = tuple(
    """painting chess cycling swimming hiking knitting fishing gardening reading dancing singing running climbing
    sailing skating skiing surfing cooking baking photography pottery yoga archery juggling camping sewing
    origami""".split()
)
SPORTS = tuple(
    "football tennis hockey rugby golf basketball volleyball badminton cricket baseball judo rowing boxing".split()
)
INSTRUMENTS = tuple(
    "flute piano guitar violin drums cello trumpet harp clarinet banjo oboe saxophone organ tuba ukulele".split()
)
LANGUAGES = tuple(
    "English French German Spanish Italian Japanese Chinese Hindi Arabic Dutch Polish Swedish Greek Turkish Korean "
    "Latin".split()
)
FLOWERS = tuple(
    "rose tulip lily daisy orchid sunflower iris poppy lilac violet peony jasmine lavender carnation".split()
)
SEASONS = ("spring", "summer", "autumn", "winter")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = tuple("January February March April May June July August September October November December".split())
KIN = tuple(
    """sister brother mother father friend boss neighbour cousin uncle aunt wife husband son daughter roommate teacher
    doctor grandmother grandfather coach partner colleague manager dentist landlord girlfriend boyfriend nephew
    niece mum dad mom best-friend""".split()
)
THINGS = tuple(
    """keys wallet phone umbrella passport bag book laptop camera bike hat scarf gloves glasses ticket map torch hammer
    ladder tent bottle letter parcel ring watch charger notebook pen guitar suitcase coat boots jacket drill kettle
    blanket pillow lamp clock vase basket remote toolbox scissors stamps medicine spare-key coffee-mug""".split()
)
PLURAL_THINGS = frozenset("keys gloves glasses boots scissors stamps".split())
SPOTS = tuple(
    """drawer box kitchen garage cellar attic garden shed cupboard office bathroom bedroom hall car wardrobe cabinet
    basement fridge desk shelf backpack locker closet safe pantry studio""".split()
)
COUNTED = tuple(
    """hens books stamps coins plants chairs apples cousins children sisters brothers bikes cats dogs tickets letters
    eggs lamps boxes friends pencils trees goats shirts cups plates keys cards marbles pots sheep bees
    rooms""".split()
)
EVENTS = tuple(
    """meeting party concert lesson exam class workshop dinner lunch interview game race wedding show picnic flight
    train bus ferry lecture rehearsal appointment ceremony market film webinar call checkup""".split()
)
OBJECTS = tuple(
    """bike lamp chair table book hat coat kettle mirror carpet painting vase radio camera ladder rope basket clock
    piano drum boat kite tent sofa shelf knife spoon pan bowl cup bottle jar candle letter map ring necklace watch
    shirt jacket blanket pillow bag box toy puzzle ball racket phone laptop tablet printer cake pie melon jacket
    plant tree rose bench wheel engine door window fence gate bridge statue stone feather shell coin stamp
    poster""".split()
)
ADJECTIVES = tuple(
    """old new small big heavy light broken shiny wooden tiny huge round square cheap expensive dusty clean warm cold
    soft hard bright dark quiet loud fast slow strange funny lovely nice beautiful ugly wet dry empty full sharp
    blunt""".split()
)
RESULT_KEYS = tuple(
    """temperature price status weather distance duration total balance address owner title message level score speed
    weight height length location platform gate delay seat room count humidity wind answer result rating author date
    time city country colour size id number code name stock version length summary""".split()
)
RESULT_WORDS = tuple(
    """sunny rainy cloudy open closed ready late early full empty free busy paid sent booked cancelled delivered
    pending done high low medium stormy windy clear on off running stopped""".split()
)
COMMON = tuple(
    """about above across after again air all almost along also always another any around art ask away back bad balance
    bank base beach because bed before begin behind below beside best better between bird body bone both branch
    breakfast bright brother build business butter button call care carry change cheap child choose circle city
    clear close cloud colour come common complete control corner cost could country cover cross crowd cry cup cut
    dance danger day dead deep degree different dinner direction dirt doubt down draw dream dress dry dust early
    earth east easy edge education effect end enough evening event every example eye face fact fall false family far
    farm fast fat fear feel field fight fill fire first flag flat floor fly fold follow force forest forward frame
    free frequent fresh friend from front full future general girl glass go gold good government grass great green
    ground group grow guide half hand happy harbour hard harmony head healthy hear heart heat help high history hole
    hollow home hope hospital hour house how hundred ice idea important impulse insect interest iron island join
    journey judge jump key kick kind kiss knee knot knowledge land language last late laugh law lead leaf learn left
    leg level library life lift like limit line lip liquid list little live lock long look loose loss loud love low
    machine make man market mass match material meal measure meat medical memory metal middle military milk mind
    mine minute mist money month moon morning mother motion mountain mouth move much muscle music nail narrow nation
    natural near neck need needle nerve net news night noise normal north nose note number observation ocean offer
    office oil open operation opinion opposite order other out oven page pain paper parallel part past paste payment
    peace person physical picture pipe place plane plough pocket point poison political poor position possible
    powder power present price print prison private probable process produce profit property prose protest public
    pull pump punishment purpose push quality question quick quite rail rain range rate ray reaction reason record
    regret regular relation religion request respect responsible rest reward rhythm right ring river road rod roll
    roof root rough rub rule safe sail salt same sand say scale school science sea seat second secret secretary seed
    seem selection self send sense separate serious servant shade shake shame ship shock short shut side sign silk
    simple skin skirt sky sleep slip slope smash smell smile smoke smooth snow society solid some son song sort
    sound south space special sponge spring stage star start statement station steam steel stem step stiff still
    stitch stomach stop store story straight street stretch strong structure substance sudden sugar suggestion
    summer sun support surprise sweet swim system tail take talk tall taste tax teaching tendency test than theory
    there thick thin thing thought thread throat through thumb thunder tight till time tin tired today together
    tomorrow tongue tooth top touch town trade transport tray trick trouble true turn twist umbrella under unit up
    use value verse very vessel view violent voice waiting walk wall war warm wash waste water wave wax way weather
    week weight west wheel when where while whip whistle who why wide wild will wind window wine wing winter wire
    wise with woman wood wool word work world worm wound write wrong year yesterday yet young""".split()
)
