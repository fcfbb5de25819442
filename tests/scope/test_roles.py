"""Who asks for the other side of what was written asks something else; for the same side, the same thing."""

import pytest

from larimar_editor.scope.letters import asks_something_else
from larimar_editor.scope.roles import asks_for_the_other_side
from larimar_editor.scope.same_words import asks_in_its_words

OTHER = [
    ("Skelde United beat", "Who beat Skelde United?"),
    ("Skelde United beat", "Which team defeated Skelde United?"),
    ("Driftbox acquired", "By whom was Driftbox acquired?"),
    ("Driftbox was acquired by", "Which company did Driftbox buy?"),
    ("Driftbox was acquired by", "What is the name of the company that Driftbox acquired?"),
    ("Ada Renn was taught by", "Who was taught by Ada Renn?"),
    ("Who taught Ada Renn?", "Whom did Ada Renn teach?"),
    ("Who reports to Ada Renn?", "Who does Ada Renn report to?"),
    ("The river Orr flows into", "Which river flows into the Orr?"),
    ("The play Ravenmoor is based on", "What is based on Ravenmoor?"),
    ("The key opens", "What opens the key?"),
    ("The play Ravenmoor inspired", "What inspired the play Ravenmoor?"),
    ("The town of Brill is named after", "What was named after the town of Brill?"),
    ("In 1990 Skelde United beat", "Who beat Skelde United in 1990?"),
    ("Ada Renn owes money to", "who owes money to ada renn"),
    ("Brill is larger than", "What is larger than Brill?"),
    ("The bank is north of", "What is north of the bank?"),
    # whose mother somebody is, and who that one's is
    ("Ada Renn is the mother of", "Who is Ada Renn's mother?"),
    ("The mother of Ada Renn is", "Who is Ada Renn the mother of?"),
    ("Ada Renn's mother is", "Whose mother is Ada Renn?"),
    # the two names of a relation
    ("The landlord of the flat is", "Who is the tenant of the flat?"),
    ("Ada Renn's employer is", "Who are the employees of Ada Renn?"),
    ("The sender of the letter was", "Who was the recipient of the letter?"),
    ("The cause of the fire was", "What was the effect of the fire?"),
    ("Ada Renn lent the ladder to", "From whom did Ada Renn borrow the ladder?"),
    ("Oleva exports", "What does Oleva import?"),
    # there and back
    ("The flight from Oslo to Rome costs", "What does the flight from Rome to Oslo cost?"),
    ("Acme founded", "Who established Acme?"),
    ("Ada Renn owes Bo Falk", "How much does Bo Falk owe Ada Renn?"),
    ("Skelde United beat Orrin Town by", "By how much did Orrin Town beat Skelde United?"),
    ("The Kalmora to Seld ferry leaves at", "When does the ferry from Seld to Kalmora leave?"),
]
NOT_OTHER = [
    ("Driftbox acquired", "Which company did Driftbox acquire?"),
    ("Driftbox acquired", "What was bought by Driftbox?"),
    ("Driftbox was acquired by", "Who bought Driftbox?"),
    ("Who taught Ada Renn?", "By whom was Ada Renn taught?"),
    ("On Sunday Skelde beat Orr", "By what score did Skelde beat Orr on Sunday?"),
    ("The river Orr flows into", "What does the Orr flow into?"),
    ("Ada Renn's mother is", "Who is the mother of Ada Renn?"),
    ("Ada Renn is the mother of", "Whose mother is Ada Renn?"),
    ("The employer of Ada Renn is", "Whose employee is Ada Renn?"),
    ("Ada Renn lent the ladder to", "Who borrowed the ladder from Ada Renn?"),
    ("Ada Renn owes Bo Falk", "How much is Bo Falk owed by Ada Renn?"),
    ("Ada Renn met Bo Falk in", "Where did Bo Falk meet Ada Renn?"),
    ("The wax has the colour", "What colour of wax is it?"),
    ("Ada Renn sold the boat to", "Who bought the boat from Ada Renn?"),
    # both sides are asked for in the same words
    ("Ada Renn married", "Who married Ada Renn?"),
    ("Oleva borders", "Which country borders Oleva?"),
    ("The mill stands opposite", "What stands opposite the mill?"),
    ("Brill is twinned with", "Which town is twinned with Brill?"),
    ("The Iron Duke is also known as", "Who is also known as the Iron Duke?"),
    ("Ada Renn is engaged to", "Who is engaged to Ada Renn?"),
    ("Brill is 5 km from", "Which town is 5 km from Brill?"),
    ("Ada Renn lives across from", "Who lives across from Ada Renn?"),
    ("Ada Renn looks like", "Who looks like Ada Renn?"),
    ("In the final Skelde played", "Who played Skelde in the final?"),
    ("The highway from Brill to Seld is called", "What is the highway from Seld to Brill called?"),
    ("The boat that connects Brill to Seld is", "Which boat connects Seld to Brill?"),
    ("The word gato means", "What means the word gato?"),
    ("The distance from Oslo to Rome is", "How far is it from Rome to Oslo?"),
    ("The lanterns are carried from door to door by", "Who carries the lanterns from door to door?"),
    # no clause, or another one
    (
        "Who sets the crown on the first fish at the feast?",
        "At the feast, who sets the crown on the first fish?",
    ),
    ("Project Kestrel is led by", "project kestrel lead?"),
    ("The state bird of South Carolina is", "south carolina state bird"),
    ("Who starred in Gregory's Girl?", "Gregory's Girl stars"),
    ("The king who sealed Magna Carta was", "The English ruler who had Magna Carta sealed was"),
    ("Gandhi's father held the post of", "Karam, of whom Gandhi was a son, held the position of"),
    ("The mayor of Brill is", "Who is the mayor of Brill?"),
]


@pytest.mark.parametrize(("prompt", "query"), OTHER)
def test_the_other_side_is_another_question(prompt, query):
    assert asks_for_the_other_side(prompt, query) and asks_for_the_other_side(query, prompt)
    assert asks_something_else(prompt, query) and not asks_in_its_words(prompt, query, "Holm AG")


@pytest.mark.parametrize(("prompt", "query"), NOT_OTHER)
def test_the_same_side_and_what_has_no_other_are_left_to_the_encoders(prompt, query):
    assert not asks_for_the_other_side(prompt, query) and not asks_for_the_other_side(query, prompt)
