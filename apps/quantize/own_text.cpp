#include "quantize/own_text.h"

namespace espalier::quantizer {

// Prose, facts, directions, talk, numbers and code, so that no kind of text decides alone.
std::string_view own_text() {
  return R"text(An espalier is a tree that is trained to grow flat against a wall or along wires. Gardeners have made them for more
than two thousand years: the Romans grew fruit against the walls of their courtyards, and in the Middle Ages the monks of
northern Europe found that a south wall, warmed by the sun all day, gives its heat back at night, so that pears and apricots
ripen where they would not ripen in the open field. The shape is made by cutting. In the first winter the young stem is cut
back to a bud some forty centimetres above the ground, and of the shoots that follow three are kept: one goes on upwards, and
two are bent to the left and to the right and tied to the lowest wire. In the next winter the same is done at the second wire,
and so on, until there are as many tiers as the wall has room for. From then on the tree is pruned twice a year. In summer the
new side shoots are shortened to three leaves above the basal cluster, which lets light and air reach the fruit; in winter,
when the tree is bare and its structure can be seen, dead and crossing wood is taken out. A well kept espalier bears for fifty
years or longer, and it needs no more room than a bookshelf.

The railway station at the edge of the town had been closed for eleven years when Marta bought it. Nobody else had made an offer.
The roof leaked over the waiting room, a birch had taken root in the gutter, and someone had carried away the clock, leaving a pale
circle on the brick. "You will freeze," said her brother, who had come to help her measure the windows. "There is a stove," she
answered. "There is half a stove." He was right about that, as he usually was about things made of iron. They spent the first
week sweeping, and in the second week the post arrived: a letter from the district office, asking whether she knew that the
ground between the rails still belonged to the state, and a parcel from her aunt with four pairs of woollen socks. By October the
roof was tight. By November she had found the clock, in the window of a shop two valleys away, and had paid more for it than for
the door. It has never kept good time, but travellers who walk the old line in summer look up at it, and then at their own
watches, and smile.

Water boils at 100 degrees Celsius at sea level, and at about 93 degrees at an altitude of two thousand metres, because the air
presses less on its surface. Light needs 8 minutes and 20 seconds from the Sun to the Earth. The human heart beats about 100,000
times a day. The Danube rises in the Black Forest, flows through ten countries and reaches the Black Sea after 2,850 kilometres.
In 1869 Dmitri Mendeleev arranged the 63 elements that were known by their weight and found that their properties repeat; he
left gaps for elements that nobody had seen, and within twenty years gallium, scandium and germanium were found, with nearly the
weights that he had foretold. Photosynthesis turns carbon dioxide and water into sugar and oxygen, with the energy of sunlight.

How to make a simple vegetable soup:
1. Chop one onion, two carrots and a stick of celery. Heat two spoons of oil in a large pot.
2. Fry the vegetables over a low heat for ten minutes, until they are soft but not brown.
3. Add 200 g of potatoes in small cubes, a bay leaf, one litre of water and a teaspoon of salt.
4. Let it simmer for 20 minutes. Take the bay leaf out, and season with pepper and a little lemon juice.
5. Serve it with bread. It keeps for three days in a refrigerator, and tastes better on the second.

User: I have three boxes. The first weighs twice as much as the second, and the third weighs 4 kg more than the first. Together
they weigh 29 kg. How heavy is each?
Assistant: Let the second box weigh x kilograms. Then the first weighs 2x and the third 2x + 4. Together they weigh x + 2x + 2x + 4 =
5x + 4 = 29, so 5x = 25 and x = 5. The boxes weigh 10 kg, 5 kg and 14 kg. As a check: 10 + 5 + 14 = 29.
User: Thanks! And if the third one were 6 kg heavier than the first instead?
Assistant: Then 5x + 6 = 29, so x = 4.6. The boxes would weigh 9.2 kg, 4.6 kg and 15.2 kg.

def merge(left, right):
    """Merges two sorted lists into one that is sorted."""
    result = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + left[i:] + right[j:]


def merge_sort(values):
    if len(values) < 2:
        return values
    middle = len(values) // 2
    return merge(merge_sort(values[:middle]), merge_sort(values[middle:]))


print(merge_sort([5, 3, 8, 1, 9, 2]))  # [1, 2, 3, 5, 8, 9]

{"name": "Ada Lovelace", "born": 1815, "known_for": ["first published program", "notes on the Analytical Engine"], "alive": false}

Dear Mr. Okafor,

thank you for your letter of 12 March. We have looked at the invoice again, and you are right: the delivery charge of 18.50 euros was
counted twice. A corrected invoice is enclosed, and the amount will be returned to your account within five working days. We are
sorry for the trouble, and hope to hear from you again.

Yours sincerely,
Ines Pereira

The committee met on Tuesday to discuss the new bridge. Its old wooden deck can carry no more than three tonnes, so that buses have
to go round by the mill, which takes a quarter of an hour. Two designs were shown. The first, of steel, would be ready in fourteen
months and cost 2.4 million; the second, of concrete, would cost a fifth less but close the road for a whole winter. The members of
the council voted for steel, by nine to four. "A bridge is a promise," said the mayor, "and we have made people wait long enough."
Work is to begin in April, as soon as the swallows that nest beneath the deck have been given boxes elsewhere.
)text";
}

}  // namespace espalier::quantizer
