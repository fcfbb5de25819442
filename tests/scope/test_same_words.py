"""A question in the statement's own words is the statement; what asks for another kind of answer is not."""

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
]
OTHER_KIND = [
    ("The firm was founded in", "Where was the firm founded?", "1932"),
    ("The firm was founded in", "When was the firm founded?", "Rome"),
    ("The invoice was paid by", "When was the invoice paid?", "Brandt & Sons"),
    ("Our cat was born in", "When was our cat born?", "a barn near Eutin"),
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


def test_without_an_answer_only_what_needs_none_is_plain():
    assert asks_in_its_words("The sword was forged by", "Who forged the sword?", None) is True
    assert asks_in_its_words("The firm was founded in", "When was the firm founded?", None) is None
