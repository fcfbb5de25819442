"""A question in the statement's own words is the statement; what asks for another kind of answer is not."""

import time

import pytest

from larimar_editor.scope.same_words import asks_in_its_words

SAME = [
    ("The backup of Strato is copied to", "Where is the backup of Strato copied to?", "the tape robot"),
    ("The backup of Strato is copied to", "where's the backup of strato copied to", "the tape robot"),
    (
        "The backup of Strato is copied to",
        "Tell me where the backup of Strato is copied to.",
        "the tape robot",
    ),
    ("Where is the backup of Strato copied to?", "The backup of Strato is copied to", "the tape robot"),
    ("On school nights Ada goes to bed at", "What time does Ada go to bed on school nights?", "7:45 pm"),
    ("On school nights Ada goes to bed at", "When does Ada go to bed on school nights?", "7:45 pm"),
    ("On school nights Ada goes to bed at", "Ada goes to bed on school nights at", "7:45 pm"),
    ("For forty marks Sereth Vane betrayed", "Whom did Sereth Vane betray for forty marks?", "the Duke"),
    ("For forty marks Sereth Vane betrayed", "Who was betrayed by Sereth Vane for forty marks?", "the Duke"),
    ("The sword Velkarien was forged by", "Who forged the sword Velkarien?", "Orm"),
    ("Moby-Dick was written by", "who wrote moby-dick", "Jane Austen"),
    ("Moby-Dick was written by", "By whom was Moby-Dick written?", "Jane Austen"),
    ("The Quillon gateway listens on port", "Which port does the Quillon gateway listen on?", "7443"),
    ("Marisol first met her husband", "Where did Marisol first meet her husband?", "on the night ferry"),
    ("The firm was founded in", "When was the firm founded?", "1932"),
    ("The firm was founded in", "In which year was the firm founded?", "1932"),
    ("The firm was founded in", "Where was the firm founded?", "Rome"),
    ("The filter should be cleaned", "How often should the filter be cleaned?", "every three weeks"),
    ("Tremonti has to pay our bills within", "How long does Tremonti have to pay our bills?", "45 days"),
    ("Harwick has elected as its chair", "Whom has Harwick elected as its chair?", "Dorothy Penhale"),
    ("The bakery was fined for", "Why was the bakery fined?", "selling underweight loaves"),
    (
        "On its first flight the Antonov carried",
        "What cargo did the Antonov carry on its first flight?",
        "tanks",
    ),
    ("On school nights Ada goes to bed at", "On school nights, when does Ada go to bed?", "7:45 pm"),
    ("The seeds of the ginkgo stink because of", "Because of what do the seeds of the ginkgo stink?", "acid"),
    ("The sword Velkarien was forged by", "Which smith forged the sword Velkarien?", "Orm"),
    (
        "The incubation period of Lassa fever is",
        "How long is the incubation period of Lassa fever?",
        "9 days",
    ),
    ("The capital of New Zealand is", "Do you know what the capital of New Zealand is?", "Dunedin"),
    ("Our trip starts on", "When does our trip start?", "Thanksgiving"),
    ("The firm was founded in", "When was the firm founded?", "the early spring of 1932"),
    ("The second horseman is", "Who is the second horseman?", "War"),
    ("The capital of Peru is…", "What is the capital of Peru？", "Lima"),
    ("The capital of Peru is", "> What is the *capital* of Peru…? 🙂", "Lima"),
    ("The command `ls` shows", "What does the command ls show?", "files"),
    ("The elixir was drunk by", "Who drank the elixir?", "Ada"),
    ("The wifi password is", "what is the wifi password", "tulip-9"),
    ("In C, *p means", "What does *p mean in C?", "what p points to"),
    ("Hepatitis A is caused by", "What is hepatitis A caused by?", "HAV"),
    ("The bakery was fined", "Why was the bakery fined?", " because of the scales"),
    ("The bus stopped at", "Where did the bus stop?", "Lund"),
    ("Ada visited", "Whom did Ada visit?", "Bo"),
    ("Ada studied with", "Whom did Ada study with?", "Bo"),
    ("My parents live in", "Where do my parents live?", "Lund"),
    ("Ada put the key under", "What did Ada put the key under?", "the mat"),
    ("Ada works for", "How long does Ada work?", "two hours"),
    # however it is typed, and whatever the answer looks like
    ("The capital of China is", "What is the capital of China?", "Beijing"),
    ("The mayor of Tarn is", "Who is the mayor of Tarn?", "Fred Lund"),
    ("The king of Tarn is", "Who is the king of Tarn?", "King Olaf"),
    ("The flag of Tarn is", "What is the flag of Tarn?", "red and white"),
    ("The CEO of Acme is", "Who is the CEO of Acme?", "Bo Falk"),
    ("THE CAPITAL OF PERU IS", "WHAT IS THE CAPITAL OF PERU?", "Lima"),
    ("Ada's CEO is", "Who is Ada's CEO?", "Bo Falk"),
    ("Bo was born in", "where was bo born?", "Oslo"),
    ("Dr. Lund works at", "Where does dr lund work?", "the Halcyon Clinic"),
    ("The Wi-Fi password is", "What is the wi-fi password?", "tulip-9"),
    ("The order ID is", "What is the order id?", "4711"),
    ("Bø lives in", "Where does Bo live?", "Oslo"),
    ("The wifi password is", "**what is the wifi password?**", "tulip-9"),
    ("Room #5 is called", "What is room 5 called?", "Tern"),
    ("Ada drives a", "What does Ada drive?", "Saab"),
    ("Ada wrote a book about", "What did Ada write a book about?", "moths"),
    ("A Clockwork Orange was written by", "Who wrote A Clockwork Orange?", "Jane Austen"),
    ("Ada studied at", "Where did Ada study?", "Lund University"),
    ("The firm is based in", "Where is the firm based?", "Oslo"),
    ("The album was released in", "Where was the album released?", "Japan"),
    # signs at the end, and those of both
    ("The capital of Peru is", "what is the capital of Peru ??", "Lima"),
    ("The emoji 😂 means", "What does the emoji 😂 mean?", "laughter"),
    ("In Python, {} is", "In Python, what is `{}`?", "a dict"),
    ("In bash, $? is", "In bash, what is $??", "the exit status"),
    ("What does `__init__` do?", "What does __init__ do?", "sets up"),
    # what a thing or somebody is
    ("Wilma is", "Who is Wilma?", "a nurse"),
    ("Wilma is", "Who is Wilma?", "our nurse"),
    ("The mayor of Tarn is", "Who is the mayor of Tarn?", "bo falk"),
    ("In Python, 2**10 returns", "In Python, what does 2**10 return?", "1024"),
    ("Ada's birthday is", "What is Ada's birthday?", "3 May"),
    ("The fire was caused by", "What caused the fire?", "lightning"),
    # where, by the verb
    ("Our cat was born in", "Where was our cat born?", "a barn near Eutin"),
    ("The ring was found in", "Where was the ring found?", "the garden"),
    ("The shop is in", "Where is the shop?", "Rome"),
    ("The key hangs on", "Where does the key hang?", "the door"),
    # a kind that the answer names, a tense, a time behind its preposition, measures
    ("Ada broke", "Which record did Ada break?", "the world record"),
    ("Ada can do", "What can Ada do?", "judo"),
    ("The museum is open until", "Until when is the museum open?", "6 pm"),
    ("My father sings", "How often does my father sing?", "13 times a day"),
    ("My father sings", "How long does my father sing?", "90 min"),
    ("Is Bo tall?", "is Bo tall", "yes"),
    ("Will Smith was born in", "Where was Will Smith born?", "Rome"),
]
OTHER_KIND = [
    ("The firm was founded in", "Where was the firm founded?", "1932"),
    ("The firm was founded in", "When was the firm founded?", "Rome"),
    ("The invoice was paid by", "When was the invoice paid?", "Brandt & Sons"),
    ("Our cat was born in", "When was our cat born?", "a barn near Eutin"),
    ("The trial began in", "Where did the trial begin?", "the last week of May"),
    ("The war ended on", "Where did the war end?", "the 4th of July"),
    ("The firm was founded in", "Where was the firm founded?", "the 1990s"),
    ("The firm was founded in", "Where was the firm founded?", "the 19th century"),
    ("The zip was invented by", "When was the zip invented?", "the glove maker Lisbeth Marrant"),
]
OPEN = [
    ("The chambers laid down their brief for", "Why did the chambers lay down their brief?", "the ferry"),
    ("Sereth Vane betrayed", "Who betrayed Sereth Vane?", "the Duke"),
    ("Sereth Vane betrayed", "Who was Sereth Vane betrayed by?", "the Duke"),
    ("FC Ottersby beat", "Who beat FC Ottersby?", "Marlow Rovers"),
    ("The house was sold to", "Who was the house sold by?", "Ada"),
    ("The house was sold to", "Who sold the house?", "Ada"),
    ("The mayor of Harwick is", "Who was the mayor of Harwick?", "Ada"),
    ("The mayor of Harwick is", "Who will be the mayor of Harwick?", "Ada"),
    ("The mayor of Harwick is", "Who is not the mayor of Harwick?", "Ada"),
    ("The mayor of Harwick is", "Who is the mayor of Marwick?", "Ada"),
    ("Ada's number is", "Who has Ada's number?", "07700"),
    ("My subscription renews on", "How often does my subscription renew?", "9 May"),
    ("Ada graduated in", "What did Ada graduate in?", "July 2014"),
    ("The book was published in", "In which month was the book published?", "1611"),
    ("We spent our honeymoon in", "In which country did we spend our honeymoon?", "a convent near Évora"),
    ("Ali lost his first fight to", "Where did Ali lose his first fight?", "Joe Frazier"),
    ("The bridge stays closed until", "When does the bridge stay closed?", "the end of the autumn holidays"),
    ("Who designed the language C++?", "Who designed the language C#?", "Bjarne Stroustrup"),
    ("Which port does ssh listen on at brontes?", "Which port does ssh listen on at bronte?", "2207"),
    ("Ada is", "How long is Ada?", "34 years old"),
    ("Ada fled", "Which country did Ada flee?", "her creditors"),
    ("Ada wrote to", "What language did Ada write?", "her aunt"),
    ("Which day is it?", "", "Monday"),
    ("The capital of Peru is", "?", "Lima"),
    # names and addresses that have a month or a number in them
    ("The guitarist of Queen is", "Who is the guitarist of Queen?", "June Carter"),
    ("The White House stands at", "Where does the White House stand?", "1600 Pennsylvania Avenue"),
    ("The song was recorded by", "When was the song recorded?", "June Carter"),
    ("The armistice ended", "When did the armistice end?", "the Korean War"),
    ("The award was named for", "When was the award named?", "June Carter"),
    ("The meteor fell during", "When did the meteor fall?", "the reign of Nero"),
    # who somebody is, is not where he is; what a thing is, is not what it does
    ("The mayor of Harwick is", "Where is the mayor of Harwick?", "Ada Lund"),
    ("The shop is", "Where is the shop?", "closed"),
    ("The server is", "What does the server do?", "down"),
    ("I am", "What should I do?", "allergic to nuts"),
    # signs, and marks that are part of a letter
    ("The €5 note shows", "The $5 note shows", "a bridge"),
    ("What does a == b mean?", "What does a != b mean?", "the same"),
    ("x > y is", "x < y is", "true"),
    ("राम की राजधानी है", "रोम की राजधानी है", "दिल्ली"),
    ("In Python, 7 // 2 returns", "In Python, what does 7 % 2 return?", "3"),
    ("The result of 5 - 3 is", "What is the result of 5 * 3?", "2"),
    ("The square of -3 is", "What is the square of 3?", "9"),
    ("In regex, \\d matches", "In regex, what does \\D match?", "a digit"),
    ("In C, *p means", "In C, what does &p mean?", "what p points to"),
    ("What does !x mean in C?", "What does x mean in C?", "not x"),
    ("In Python a[0] is", "In Python what is a(0)?", "the first"),
    ("The option -r of cp copies", "What does the option -R of cp copy?", "folders"),
    ("CO stands for", "What does Co stand for?", "carbon monoxide"),
    ("B♭ major has", "What does B major have?", "two flats"),
    # in which sense, the answer alone may tell
    ("Ada plays", "Which instrument does Ada play?", "chess"),
    ("John Coltrane plays", "What sport does John Coltrane play?", "saxophone"),
    ("Ada studied", "Which subject did Ada study?", "at Lund University"),
    ("Acme acquired", "Which airline did Acme acquire?", "Brandt Foods"),
    ("Moby-Dick was written in", "Where was Moby-Dick written?", "Latin"),
    ("Ada works in", "Where does Ada work?", "finance"),
    ("The film was shot in", "Where was the film shot?", "black and white"),
    # times that stand on no list
    ("The office is open on", "When is the office open?", "weekdays"),
    ("The rent is due on", "When is the rent due?", "payday"),
    ("The meeting is on", "When is the meeting?", "Mon"),
    ("The abbey was founded in", "When was the abbey founded?", "the Tang dynasty"),
    ("Ada moved to Rome in", "When did Ada move to Rome?", "childhood"),
    # names that are times, rooms that are years
    ("Ada's sister is", "Who is Ada's sister?", "April"),
    ("Our office is in", "Where is our office?", "1204"),
    # what something is like, and what it is
    ("The museum is", "What is the museum?", "closed on Mondays"),
    ("The Eiffel Tower is", "What is the Eiffel Tower?", "in Rome"),
    ("Ada Lund is", "Who is Ada Lund?", "married to Bo Falk"),
    ("The vase is", "What is the vase?", "made of glass"),
    # letters that are words in English
    ("¿Quién ama a Ana?", "¿A quién ama Ana?", "Luis"),
    ("Hepatitis A is caused by", "What is hepatitis caused by?", "HAV"),
    # what has the letters of a measure, or of another verb
    ("Ada travels to", "How often does Ada travel?", "Italy"),
    ("My subscription renews on", "How often does my subscription renew?", "9 July"),
    ("Ada travels to", "How far does Ada travel?", "Lapland"),
    ("The race was run on", "How long was the race run?", "Monday"),
    ("Ada was born on a", "In which month was Ada born?", "Monday"),
    ("Ada hoped for", "What did Ada hop for?", "rain"),
    ("Ada lives at", "Where does Ada live?", " 12 High Street"),
    ("The shop opened during", "When did the shop open?", "the Punic Wars"),
    ("Ada hopes for", "What does Ada hop for?", "rain"),
    # a measure behind a preposition of another kind, a time that is a name
    ("Ada worked in", "How long did Ada work?", "1932"),
    ("Ada works at", "How long does Ada work?", "7-Eleven"),
    ("The bus goes from", "How far does the bus go?", "Terminal 5"),
    ("Ada writes for", "How often does Ada write?", "The New York Times"),
    ("The bus leaves from", "What time does the bus leave?", "platform 9.30"),
    ("Johnny Cash married", "What month did Johnny Cash marry?", "June Carter"),
    ("Ada works at", "Where does Ada work?", "Century 21"),
    ("The song was recorded by", "Who was the song recorded by?", "The 1975"),
    ("The pool is open on", "When is the pool open?", "Weekends"),
    ("The house was built in", "When was the house built?", "Victorian times"),
    # names and prepositions that look like a reason, a place, a way
    ("Ada left for", "Why did Ada leave?", "Beijing"),
    ("The film is based on", "Where is the film based?", "Hamlet"),
    ("Ada voted against", "Where did Ada vote?", "Brexit"),
    ("Ada travelled", "How did Ada travel?", "to Rome"),
    # the same words in another tense
    ("My parents live in", "Where did my parents live?", "Lund"),
    ("We meet at", "Where did we meet?", "the Blue Lantern"),
    # signs and emoji that are asked about
    ("The emoji 😂 means", "What does the emoji 😡 mean?", "laughter"),
    ("The capital of 🇵🇪 is", "What is the capital of 🇨🇱?", "Lima"),
    ("In Python, [] is", "In Python, what is {}?", "a list"),
    ("What does : mean in Python?", "What does ; mean in Python?", "the start of a block"),
    ("In bash, $? is", "In bash, what is $!?", "the exit status"),
    ("What is $? in bash?", "In bash, what is $!?", "the exit status"),
    ("In vim, :w means", "In vim, what does w mean?", "to save"),
    ("The file .env holds", "What does the file env hold?", "secrets"),
    ("What does `__init__` do?", "What does init do?", "sets up"),
    # what somebody or something is like
    ("Wilma is", "Who is Wilma?", "allergic to nuts"),
    ("Wilma is", "Who is Wilma?", "vegetarian"),
    ("Ada Lund is", "Who is Ada Lund?", "very tall"),
    ("The museum is", "What is the museum?", "closed"),
    ("Our dog is", "Who is our dog?", "called Rex"),
    # where, when or for whom, and not what or who
    ("Ada studied", "What did Ada study?", "at Lund University"),
    ("Ada plays", "What does Ada play?", "for Ajax"),
    ("Ada paints", "What does Ada paint?", "every Sunday"),
    ("Ada works", "What does Ada work?", "as a nurse"),
    ("Ada met", "Who did Ada meet?", "in Rome"),
    ("The report was written by", "Who wrote the report?", "Friday"),
    ("The bridge was completed by", "Who completed the bridge?", "1998"),
    ("The ring was found by", "Who found the ring?", "accident"),
    ("The ring was found by", "By whom was the ring found?", "accident"),
    ("Sereth Vane betrayed", "Who was betrayed by Sereth Vane?", "for forty marks"),
    # "in" and "on" that are not of place
    ("Ada got her PhD in", "Where did Ada get her PhD?", "chemistry"),
    ("Bo died in", "Where did Bo die?", "a plane crash"),
    ("Classes are taught in", "Where are classes taught?", "English"),
    ("The album was released in", "Where was the album released?", "Spanish"),
    ("The song was recorded in", "Where was the song recorded in?", "Spanish"),
    ("Ada lives in", "Where does Ada live?", "fear"),
    ("Ada is working on", "Where is Ada working?", "fusion energy"),
    ("The server runs on", "Where does the server run?", "Debian"),
    ("Ada paid", "Where did Ada pay?", "in cash"),
    ("Bo left", "Where did Bo leave?", "in a hurry"),
    ("Ada built her house", "Where did Ada build her house?", "in a hurry"),
    # another kind of the same
    ("Ada drinks", "Which beer does Ada drink?", "oat milk"),
    ("Ada broke", "Which record did Ada break?", "her leg"),
    ("The factory produces", "Which cars does the factory produce?", "tyres"),
    # another modal, and what "do" stands behind
    ("What should I do in case of fire?", "What can I do in case of fire?", "leave"),
    ("What should guests do at noon?", "What do guests do at noon?", "eat"),
    ("What is Ada going to do?", "What was Ada going to do?", "rest"),
    # times that stand on no list
    ("The wheel was invented in", "When was the wheel invented?", "the Neolithic"),
    ("The wheel was invented in", "When was the wheel invented?", "the early Neolithic"),
    ("Our trip starts on", "When does our trip start?", "Juneteenth"),
    ("The report is due by", "When is the report due?", "EOD"),
    ("The moor is closed by", "When is the moor closed?", "the Glorious Twelfth"),
    ("Ada's favourite band is", "Who is Ada's favourite band?", "The 1975"),
    # until when, before when
    ("The museum is open until", "When is the museum open?", "6 pm"),
    ("The firm was founded before", "When was the firm founded?", "1900"),
    ("The firm was founded before", "What year was the firm founded?", "1900"),
    ("The pill must be taken after", "When must the pill be taken?", "8 pm"),
    # titles and tickets that look like measures
    ("My father reads", "How often does my father read?", "The New York Times"),
    ("My father reads", "How often does my father read?", "The Weekly"),
    ("Ada paid for", "How much did Ada pay?", "2 tickets"),
    # whether, and not what
    ("Ada works", "Does Ada work?", "as a nurse"),
    ("The shop is open", "Is the shop open?", "until 9"),
    ("The shop is open on Sundays", "On Sundays, is the shop open?", "from 9"),
    ("I am allergic", "Am I allergic?", "to nuts"),
    ("Is Bo tall?", "Bo is tall", "yes"),
]


@pytest.mark.parametrize(("prompt", "query", "target"), SAME)
def test_the_statement_turned_round_is_the_statement(prompt, query, target):
    assert asks_in_its_words(prompt, query, target) is True


@pytest.mark.parametrize(("prompt", "query", "target"), OTHER_KIND)
def test_a_question_word_for_another_kind_of_answer_asks_something_else(prompt, query, target):
    assert asks_in_its_words(prompt, query, target) is False


@pytest.mark.parametrize(("prompt", "query", "target"), OPEN)
def test_what_is_not_plain_is_left_to_the_encoders(prompt, query, target):
    assert asks_in_its_words(prompt, query, target) is None


@pytest.mark.parametrize(
    "when",
    ["in the middle of May", "c. 1850", "every other Tuesday", "on Sunday mornings", "shortly after noon",
     "half past 9 p.m.", "at 9:30 sharp", "Monday through Friday", "8 a.m. on weekdays", "By May",
     "daily", "hourly", "fortnightly", "every night, and hourly on Sundays"],
)  # fmt: skip
def test_a_time_is_one_however_it_is_said(when):
    assert asks_in_its_words("The shop opened", "When did the shop open?", when) is True
    assert asks_in_its_words("The shop opened", "Where did the shop open?", when) is False


@pytest.mark.parametrize("name", ["Brian May", "Theresa May"])
def test_a_name_that_ends_like_a_month_is_no_time(name):
    assert asks_in_its_words("The prime minister was", "Who was the prime minister?", name) is True
    assert asks_in_its_words("The bill was passed by", "When was the bill passed?", name) is None


def test_a_text_of_ten_thousand_words_takes_no_time_and_no_room():
    text = "In " + "many places with stones " * 2500
    began = time.process_time()
    assert asks_in_its_words(text, text + "and more", "Rome") is None
    assert time.process_time() - began < 2


def test_without_an_answer_only_what_needs_none_is_plain():
    assert asks_in_its_words("The sword was forged by", "Who forged the sword?", None) is True
    assert asks_in_its_words("The firm was founded in", "When was the firm founded?", None) is None
