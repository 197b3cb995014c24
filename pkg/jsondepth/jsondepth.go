// Package jsondepth bounds how deep JSON nests before a parser reads it. Parsers, wire formats and providers give
// up at depths of their own, so that every border of kaged has the same one.
package jsondepth

// Max is how deep objects and arrays may nest in the JSON of a request and in the input of a tool call.
const Max = 100

// Of returns how deep brackets outside strings nest in data, which need not be JSON.
func Of[T string | []byte](data T) int {
	open, deepest, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}
