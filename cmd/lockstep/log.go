package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"lockstep/config"
)

// Levels beyond those of slog, for the established names.
const (
	levelTrace = slog.LevelDebug - 4
	levelFatal = slog.LevelError + 4
)

// newLogger makes the logger that the settings ask for.
func newLogger(w io.Writer, cfg config.Log) (*slog.Logger, error) {
	level, ok := map[string]slog.Level{
		"trace": levelTrace, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "fatal": levelFatal,
	}[strings.ToLower(cfg.Level)]
	if !ok {
		return nil, fmt.Errorf("LOG_LEVEL %q: want trace, debug, info, warn, error or fatal", cfg.Level)
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Pretty {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}
