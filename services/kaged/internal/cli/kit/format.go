package kit

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// RefusedLine returns the line for a refused connection.
func RefusedLine(target, why string, times int64) string {
	line := "refused: " + Brief(target, 300)
	if times > 1 {
		line += fmt.Sprintf(" (%d times)", times)
	}
	return line + ": " + Brief(why, 300)
}

// Count returns a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// ShellQuote returns text in the form that a shell reads as one word.
func ShellQuote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// plainWord matches words that no shell changes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// Ago returns the time since a time ms, in seconds.
func Ago(now time.Time, ms int64) string {
	return max(now.Sub(time.UnixMilli(ms)), 0).Truncate(time.Second).String()
}

func Seconds(ms int64) string { return fmt.Sprintf("%.2fs", float64(ms)/1000) }

func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(JSON(w))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
