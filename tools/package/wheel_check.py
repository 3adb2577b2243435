"""wheel_check.py MODEL: a program of the language in this process, with the installed package."""
import sys

import espalier as sgl


@sgl.function
def greet(s):
    s += "Hello" + sgl.gen("words", max_tokens=8, temperature=0)


engine = sgl.Engine(model_path=sys.argv[1])
sgl.set_default_backend(engine)
words = greet.run()["words"]
if not words:
    sys.exit("the program's variable is empty")
engine.shutdown()
print(f"Python {sys.version.split()[0]}: a program in this process, {len(words)} characters")
