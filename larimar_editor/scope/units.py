"""Units that measures are told in: how much each is, and by which names they are known to be measures."""

from __future__ import annotations

# Of each dimension how much a unit is of its first, and the unit's name; of many only the singular.
_TABLE = {
    "time": "1 second 1 sec 60 minute 60 min 3600 hour 3600 hr 3600 h 86400 day 604800 week 2629800 month "
    "31557600 year",
    "length": "1 m 1 metre 1 meter 0.01 cm 0.01 centimetre 0.01 centimeter 0.001 mm 0.001 millimetre "
    "0.001 millimeter 1000 km 1000 kilometre 1000 kilometer 0.0254 in 0.0254 inch 0.3048 ft 0.3048 foot "
    "0.3048 feet 0.9144 yd 0.9144 yard 1609.344 mi 1609.344 mile",
    "mass": "1 g 1 gram 0.001 mg 0.001 milligram 1000 kg 1000 kilo 1000 kilogram 453.6 pound 453.6 lb "
    "28.35 ounce 28.35 oz 1e6 tonne",
    "volume": "1 l 1 litre 1 liter 0.001 ml 0.001 millilitre 0.001 milliliter 0.568 pint 3.785 gallon",
}
_NAMES = {dimension: units.split()[1::2] for dimension, units in _TABLE.items()}
# Of each unit the dimension, and how much of its first.
UNITS = {
    name: (dimension, float(factor))
    for dimension, units in _TABLE.items()
    for factor, name in zip(units.split()[::2], _NAMES[dimension])
}
# Short ones are units behind a number only.
SHORT_NAMES = {dimension: [name for name in names if len(name) < 4] for dimension, names in _NAMES.items()}
LONG_NAMES = {dimension: [name for name in names if len(name) > 3] for dimension, names in _NAMES.items()}
