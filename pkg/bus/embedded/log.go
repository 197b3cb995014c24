package embedded

import (
	"fmt"
	"log/slog"
	"sync"
)

// logAdapter forwards the server's log to slog. The server's notices, which list the settings at each start, become
// debug entries.
type logAdapter struct {
	log *slog.Logger

	mu      sync.Mutex // guards the fields below
	problem string
	ended   bool
}

func (l *logAdapter) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logAdapter) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logAdapter) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *logAdapter) Warnf(format string, v ...any)   { l.log.Warn(l.keep(format, v)) }
func (l *logAdapter) Errorf(format string, v ...any)  { l.log.Error(l.keep(format, v)) }

// Fatalf does not end the process, unlike the server's own logger; Start reports the message.
func (l *logAdapter) Fatalf(format string, v ...any) {
	l.log.Error(l.keep(format, v))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *logAdapter) keep(format string, v []any) string {
	text := fmt.Sprintf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problem = text
	return text
}

// last returns the last error message.
func (l *logAdapter) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problem
}

// fatal reports whether the server has given up.
func (l *logAdapter) fatal() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}
