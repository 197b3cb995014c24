package loop

import "strings"

// tailMax is the maximum size in bytes of the output in the result of a broken-off call.
const tailMax = 8 << 10

// outputTail keeps the end of a call's output, both streams in the order of arrival.
type outputTail struct {
	text    []byte
	skipped bool
}

func (o *outputTail) add(text string) {
	o.text = append(o.text, text...)
	if n := len(o.text) - tailMax; n > 0 {
		o.text, o.skipped = append(o.text[:0], o.text[n:]...), true
	}
}

// String returns the end of the output, which begins with a whole line if something before it is missing.
func (o *outputTail) String() string {
	text := string(o.text)
	if o.skipped {
		if _, rest, found := strings.Cut(text, "\n"); found {
			text = rest
		}
		text = "[...]\n" + text
	}
	return valid(text)
}
