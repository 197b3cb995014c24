package wordcount

import (
	"reflect"
	"testing"
)

func TestTop(t *testing.T) {
	text := "The cage is open; the agent is in. \"The cage!\" said the agent."
	want := []Count{{"the", 4}, {"agent", 2}, {"cage", 2}, {"is", 2}}
	if got := Top(text, 4); !reflect.DeepEqual(got, want) {
		t.Errorf("Top = %v, want %v", got, want)
	}
}

func TestTopIgnoresWhatIsNoWord(t *testing.T) {
	if got := Top("-- ... !?", 3); len(got) != 0 {
		t.Errorf("Top = %v, want nothing", got)
	}
}
