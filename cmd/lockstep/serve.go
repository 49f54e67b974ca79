package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lmittmann/tint"

	"lockstep/app"
	"lockstep/config"
)

const serveAbout = `Runs the relay alone. Its settings come from the environment and from the .env
file in the working directory. docs/CONFIG.md lists them;
CHAIN_ID, HEDERA_NETWORK, MIRROR_NODE_URL, OPERATOR_ID_MAIN and OPERATOR_KEY_MAIN
are what a relay needs at least.`

func runServe(ctx context.Context, args []string, std streams) error {
	if err := parse(newFlags("serve", serveAbout, std), args); err != nil {
		return err
	}
	cfg, err := loadConfig(std)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	if err := setLevel(level, cfg.Log); err != nil {
		return err
	}
	log, err := newLoggerAt(std.err, cfg.Log, level)
	if err != nil {
		return err
	}
	relay, err := app.New(cfg, version, log)
	if err != nil {
		return err
	}
	relay.Reloads(func() (config.Config, error) { return loadConfig(std) }, func(next config.Config) { _ = setLevel(level, next.Log) })
	defer reloadOnHangup(ctx, func(ctx context.Context) error { _, err := relay.Reload(ctx); return err }, log)()
	http, ws := relay.Endpoints()
	if err := relay.Listen(ctx, http, ws); err != nil {
		return err
	}
	log.Info("relay is ready", "http", relay.HTTPAddr(), "ws", relay.WSAddr(), "admin", relay.AdminAddr(), "health_and_metrics", statusAddr(relay), "chain", cfg.Server.ChainID.Hex(), "version", version)
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		relay.Announce(ctx)
		relay.CheckAgain(ctx)
	}()
	err = relay.Run(ctx)
	<-announced
	return err
}

// setLevel sets the level below which nothing is logged.
func setLevel(to *slog.LevelVar, cfg config.Log) error {
	level, known := cfg.Least()
	if !known {
		return fmt.Errorf("LOG_LEVEL %q: want trace, debug, info, warn, error or fatal", cfg.Level)
	}
	to.Set(level)
	return nil
}

// reloadOnHangup has settings read again at each SIGHUP, until the returned function is called.
func reloadOnHangup(ctx context.Context, reload func(context.Context) error, log *slog.Logger) (stop func()) {
	hangups, over, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				if err := reload(ctx); err != nil {
					log.Error("the settings were read again and are wrong: nothing was changed", "error", err)
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(over)
		<-ended
	}
}

// statusAddr is where a relay answers probes and Prometheus.
func statusAddr(relay *app.App) string {
	if addr := relay.StatusAddr(); addr != "" {
		return addr
	}
	return relay.HTTPAddr()
}

// completed is the environment of this process with what the file of settings adds to it, and that file's path, "" for none.
func completed(std streams) (environ []string, file string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	return config.Environ(std.env, dir)
}

// loadConfig reads the settings of this process. With an error the settings are those that
// could be read.
func loadConfig(std streams) (config.Config, error) {
	environ, _, err := completed(std)
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(environ)
	if err != nil {
		return cfg, fmt.Errorf("configuration:\n%w", err)
	}
	return cfg, nil
}

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
