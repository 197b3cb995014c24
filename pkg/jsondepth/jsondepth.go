// Package jsondepth limits the nesting of JSON before a parser reads it. Parsers, wire formats and providers have
// different limits of their own; with this one the limit is the same everywhere in kaged.
package jsondepth

// Max is the maximum nesting of objects and arrays in the JSON of a request and in the input of a tool call.
const Max = 100

// Of returns the nesting depth of brackets outside strings in data, which need not be JSON.
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
