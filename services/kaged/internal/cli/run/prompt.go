package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/services/kaged/internal/cli/kit"
)

// maxPrompt is the maximum size of a prompt in bytes, with standard input.
const maxPrompt = 1 << 20

// firstInput is the time to wait for the first byte of a pipe, before the prompt is sent without it: scripts often
// start commands with a pipe that is never written and never closed.
const firstInput = 3 * time.Second

// prompt joins the arguments and standard input. An argument - is replaced by standard input. Without such an argument,
// standard input is added below the arguments if it is a pipe or a file.
func prompt(a kit.App, cmd *cobra.Command, args []string) (string, error) {
	var text string
	switch dash := slices.Index(args, "-"); {
	case dash >= 0:
		input, err := readPrompt(a.Stdin)
		if err != nil {
			return "", err
		}
		text = below(below(strings.Join(args[:dash], " "), input), strings.Join(args[dash+1:], " "))
	default:
		input, err := piped(a)
		if err != nil {
			return "", err
		}
		text = below(strings.Join(args, " "), input)
	}
	if len(text) > maxPrompt {
		return "", kit.Usage("the prompt is longer than %d bytes", maxPrompt)
	}
	switch blank := strings.TrimSpace(text) == ""; {
	case blank && len(args) == 0:
		return "", kit.Misused(cmd, "a prompt is needed, or - to read it from standard input")
	case blank:
		return "", kit.Usage("the prompt is empty")
	}
	return text, nil
}

// below joins two texts with an empty line between them.
func below(first, second string) string {
	if strings.TrimSpace(first) == "" || strings.TrimSpace(second) == "" {
		return first + second
	}
	return strings.TrimRight(first, "\n") + "\n\n" + second
}

// piped returns the text that is piped into the command; it may be "".
func piped(a kit.App) (string, error) {
	switch kind, file := inputOf(a); kind {
	case inputFile:
		return readPrompt(file)
	case inputPipe:
		return awaited(a, file)
	}
	return "", nil
}

// input is the kind of standard input.
type input int

const (
	inputNone input = iota // a terminal, /dev/null, or closed
	inputFile
	inputPipe
)

func inputOf(a kit.App) (input, *os.File) {
	file, ok := a.Stdin.(*os.File)
	if !ok {
		return inputNone, nil
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return inputNone, nil
	case info.Mode().IsRegular():
		return inputFile, file
	case info.Mode().Type() == fs.ModeNamedPipe:
		return inputPipe, file
	}
	return inputNone, nil
}

// awaited reads a pipe to its end, unless its first byte takes too long.
//
// Goroutines: the reader, which ends with the pipe or with the process, because a read of a pipe cannot be cancelled.
func awaited(a kit.App, pipe io.Reader) (string, error) {
	type first struct {
		data []byte
		err  error
	}
	got := make(chan first, 1)
	go func() {
		buf := make([]byte, 4<<10)
		n, err := pipe.Read(buf)
		got <- first{buf[:n], err}
	}()
	timeout := time.NewTimer(firstInput)
	defer timeout.Stop()
	select {
	case f := <-got:
		if errors.Is(f.err, io.EOF) && len(f.data) == 0 {
			return "", nil
		}
		return readPrompt(io.MultiReader(bytes.NewReader(f.data), pipe))
	case <-timeout.C:
		fmt.Fprintf(
			a.Stderr,
			"kaged: no standard input within %s; continuing without it (the argument - waits for it)\n",
			firstInput,
		)
		return "", nil
	}
}

func readPrompt(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPrompt+1))
	if err != nil {
		return "", fmt.Errorf("standard input cannot be read: %w", err)
	}
	if len(data) > maxPrompt {
		return "", kit.Usage("the prompt is longer than %d bytes", maxPrompt)
	}
	return string(data), nil
}
