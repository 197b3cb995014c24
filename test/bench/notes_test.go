package bench

import (
	"regexp"
	"strings"
	"testing"
)

// plainQuestion matches questions that ripgrep reads as words.
var plainQuestion = regexp.MustCompile(`^[a-zA-Z ,()-]+$`)

// The notes are always the same. Each question has one answer, and only characters that ripgrep reads as words.
func TestNotesAndQuestions(t *testing.T) {
	t.Parallel()
	notes := makeNotes()
	if again := makeNotes(); len(notes) != memoryNotes || notes[4711].text != again[4711].text ||
		notes[9999].name != again[9999].name {
		t.Fatalf("%d notes", len(notes))
	}
	titles := map[string]bool{}
	for _, n := range notes {
		key := n.service + " " + n.place + " " + n.subject.title
		if titles[key] || strings.Contains(n.text, "%!") || !strings.Contains(n.text, n.service) || !strings.Contains(n.text,
			n.place) {
			t.Fatalf("%s: %s", key, n.text)
		}
		titles[key] = true
	}
	questions := makeQuestions(notes)
	kinds := map[string]int{}
	for _, q := range questions {
		kinds[q.Kind]++
		if !plainQuestion.MatchString(q.Text) || q.answer == "" {
			t.Errorf("%+v", q)
		}
	}
	if len(questions) != 200 || kinds["plain"] != 50 || kinds["inflected"] != 50 || kinds["misspelt"] != 50 ||
		kinds["setting"] != 50 {
		t.Errorf("%d questions: %v", len(questions), kinds)
	}
}
