"""Words that exclude each other tell two questions apart; the two sides of one thing do not."""

import pytest

from larimar_editor.scope.contrasts import in_contrast
from larimar_editor.scope.letters import asks_something_else

APART = [
    ("The western terminus of the line is", "Where is the eastern terminus of the line?"),
    ("The melting point of tin is", "At how many degrees does tin boil?"),
    ("The first woman on the summit was", "Who was the second woman on the summit?"),
    ("The last train leaves at", "When does the first train leave?"),
    ("The longest river of Oleva is", "What is the shortest river in Oleva?"),
    ("Ada's mother is", "who is ada's father"),
    ("The weekly rent is", "How much is the rent, annual?"),
    ("The maximum load of the van is", "What is the minimum load of the van?"),
    ("The height of Dornik Tower is", "How wide is Dornik Tower?"),
    ("Our cat was born in", "Where did our cat die?"),
    ("The runner who finished first was", "Which runner finished last?"),
    ("Ada's mother's name is", "What is Ada's father's name?"),
    ("Hamlet's sons are", "Who are Hamlet's daughters?"),
    ("Ada's older sister is", "Who is Ada's younger sister?"),
    ("The successor of Bo Falk was", "Who was the predecessor of Bo Falk?"),
    ("The final episode of Orrery was", "What was the first episode of Orrery?"),
    ("The larger of the two lakes is", "Which of the two lakes is smaller?"),
    ("Largest Swedish lake is", "What is the smallest Swedish lake?"),
]
NOT_APART = [
    ("The house was bought from", "Who sold the house?"),
    ("Ada's husband is", "Whose wife is Ada?"),
    ("The Last of the Mohicans was published in", "When did The Last of the Mohicans first come out?"),
    ("Last year the app was rewritten in", "What was the app first rewritten in, last year?"),
    ("The largest party of Oleva is", "Which is the biggest party in Oleva?"),
    ("The monthly rent is", "How much is the rent per month?"),
    ("The First Bank of Oleva is in", "Where is the second branch of the First Bank of Oleva?"),
    ("The first station and the last are", "Which are the last and the first station?"),
    ("The second act of Orrery takes", "How long does act two of Orrery last?"),
    ("The mother tongue of Lena is", "What is the native language of Lena, whose father is Bo?"),
    ("The museum was left a painting by", "Who gave the right painting to the museum?"),
    ("The successor of Pope Pius XI was", "Whose predecessor was Pope Pius XI?"),
    ("The antagonist of Ravenmoor is", "Who is the enemy of the protagonist of Ravenmoor?"),
    ("Ada's elder brother is", "Ada is the younger sibling of whom?"),
    ("The final of the Skarholm Cup was won by", "Who took first place in the Skarholm Cup?"),
    ("The first warranty period is", "How long does the initial warranty last on the X200?"),
    ("Last Tango in Paris premiered in", "Where was Last Tango in Paris first shown?"),
    ("Second Life was launched by", "Who first launched Second Life?"),
    ("Brill is larger than", "Which town is smaller than Brill?"),
    ("Ada is older than", "Who is younger than Ada?"),
    ("Die Welt was founded in", "When was the newspaper Die Welt born?"),
]


@pytest.mark.parametrize(("prompt", "query"), APART)
def test_what_is_excluded_is_another_question(prompt, query):
    assert in_contrast(prompt, query) and in_contrast(query, prompt)
    assert asks_something_else(prompt, query)


@pytest.mark.parametrize(("prompt", "query"), NOT_APART)
def test_two_sides_of_one_thing_names_and_asides_exclude_nothing(prompt, query):
    assert not in_contrast(prompt, query) and not in_contrast(query, prompt)
