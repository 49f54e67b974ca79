package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"lockstep/config"
)

// newLogger makes the logger that the settings ask for.
func newLogger(w io.Writer, cfg config.Log) (*slog.Logger, error) {
	level, known := cfg.Least()
	if !known {
		return nil, fmt.Errorf("LOG_LEVEL %q: want trace, debug, info, warn, error or fatal", cfg.Level)
	}
	return newLoggerAt(w, cfg, level)
}

// newLoggerAt makes the logger with a level of the caller's, which may change.
func newLoggerAt(w io.Writer, cfg config.Log, level slog.Leveler) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: levelNames}
	switch t := terminalOf(w); {
	case cfg.Pretty && t.columns > 0:
		return slog.New(spread{tint.NewTextHandler(w, &tint.Options{
			Level: level, ReplaceAttr: terminalFields, TimeFormat: time.TimeOnly, NoColor: !t.colour,
		}), w, t}), nil
	case cfg.Pretty:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case cfg.Fields == "hiero":
		options.ReplaceAttr = hieroFields
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("the name of this machine, for the log: %w", err)
		}
		return slog.New(slog.NewJSONHandler(w, options)).With("pid", os.Getpid(), "hostname", host, "name", "lockstep"), nil
	default:
		options.ReplaceAttr = lockstepFields
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
}

// spread writes a record with many fields, such as what a relay is, over several lines of a terminal: nobody reads ten fields in one.
type spread struct {
	slog.Handler
	w io.Writer
	t terminal
}

// manyFields are too many for one line.
const manyFields = 8

func (s spread) Handle(ctx context.Context, r slog.Record) error {
	if r.NumAttrs() < manyFields {
		return s.Handler.Handle(ctx, r)
	}
	if err := s.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, r.Message, r.PC)); err != nil {
		return err
	}
	var lines bytes.Buffer
	r.Attrs(func(a slog.Attr) bool {
		if text := strings.TrimSpace(plain(a.Value.Resolve().String())); text != "" {
			fmt.Fprintf(&lines, "%13s%s %s\n", "", s.t.paint(dim, fmt.Sprintf("%-9s", a.Key)), text)
		}
		return true
	})
	_, err := s.w.Write(lines.Bytes())
	return err
}

func (s spread) WithAttrs(attrs []slog.Attr) slog.Handler {
	return spread{s.Handler.WithAttrs(attrs), s.w, s.t}
}

func (s spread) WithGroup(name string) slog.Handler {
	return spread{s.Handler.WithGroup(name), s.w, s.t}
}

// terminalFields gives the message a column, so that the fields of lines under each other begin under each other.
func terminalFields(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.MessageKey && len(groups) == 0 {
		return slog.String(a.Key, fmt.Sprintf("%-44s", a.Value))
	}
	return levelNames(groups, a)
}

// lockstepFields gives durations the form that they have in lines for people, such as 14.2ms: the handler of JSON would
// write nanoseconds without a unit.
func lockstepFields(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return levelNames(groups, a)
}

// levelNames gives the levels beyond those of slog their own names.
func levelNames(groups []string, a slog.Attr) slog.Attr {
	if a.Key != slog.LevelKey || len(groups) > 0 {
		return a
	}
	switch a.Value.Any() {
	case config.LevelTrace:
		a.Value = slog.StringValue("TRACE")
	case config.LevelFatal:
		a.Value = slog.StringValue("FATAL")
	}
	return a
}

// hieroFields gives the fields the names and forms of the TypeScript relay's JSON lines: a level
// is a number, the time is in milliseconds since the epoch, and durations are in milliseconds, too.
func hieroFields(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key, float64(a.Value.Duration())/float64(time.Millisecond))
	}
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.Int64(a.Key, a.Value.Time().UnixMilli())
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.Int(a.Key, hieroLevel(level))
	case "request_id":
		a.Key = "requestId"
	case "error":
		a.Key = "err"
	}
	return a
}

// hieroLevel is a level's number there.
func hieroLevel(level slog.Level) int {
	switch {
	case level < slog.LevelDebug:
		return 10
	case level < slog.LevelInfo:
		return 20
	case level < slog.LevelWarn:
		return 30
	case level < slog.LevelError:
		return 40
	case level < config.LevelFatal:
		return 50
	}
	return 60
}
