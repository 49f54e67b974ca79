package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
)

// redisServer is one redis-server without persistence.
type redisServer struct {
	*process
	lab   *lab
	port  string
	admin redis.UniversalClient
}

// redis starts a server.
func (l *lab) redis(ctx context.Context) (*redisServer, error) {
	var last error
	for range 3 { // another process may take the port first
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		s := &redisServer{lab: l, port: port}
		if s.admin, err = redisx.Open(s.url(), redisx.Options{Timeout: 2 * time.Second}); err != nil {
			return nil, err
		}
		if last = s.launch(ctx); last == nil {
			return s, nil
		}
		s.close()
	}
	return nil, last
}

// launch starts the process, or starts it again after kill.
func (s *redisServer) launch(ctx context.Context) (err error) {
	s.process, err = s.lab.start("redis", nil, "redis-server", "--port", s.port, "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	if err != nil {
		return err
	}
	var dialer net.Dialer
	err = poll(ctx, startLimit, 5*time.Millisecond, func() error {
		select {
		case <-s.ended:
			return &fatal{fmt.Errorf("redis-server ended:\n%s", s.tail())}
		default:
		}
		c, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+s.port)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	return poll(ctx, startLimit, 5*time.Millisecond, func() error { return s.admin.Ping(ctx).Err() })
}

func (s *redisServer) url() string { return "redis://127.0.0.1:" + s.port }

func (s *redisServer) close() {
	if s.process != nil {
		s.kill()
	}
	_ = s.admin.Close()
}

var statLine = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+),usec=(\d+)`)

// commands returns how many commands the server has executed since the last reset,
// those inside scripts included, but for those the suite itself sends.
func (s *redisServer) commands(ctx context.Context) (total float64, err error) {
	stats, err := s.stats(ctx)
	for name, stat := range stats {
		if !own[name] {
			total += stat.calls
		}
	}
	return total, err
}

// own are the commands of the suite. The lock and the baseline use none of them.
var own = map[string]bool{"info": true, "config|resetstat": true, "zcard": true, "sort_ro": true, "ping": true}

// commandStat is what a server has done of one command since the last reset.
type commandStat struct{ calls, micros float64 }

func (s *redisServer) stats(ctx context.Context) (map[string]commandStat, error) {
	info, err := s.admin.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	stats := map[string]commandStat{}
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		calls, callsErr := strconv.ParseFloat(m[2], 64)
		micros, microsErr := strconv.ParseFloat(m[3], 64)
		if err := errors.Join(callsErr, microsErr); err != nil {
			return nil, err
		}
		stats[m[1]] = commandStat{calls, micros}
	}
	return stats, nil
}

// ping returns the seconds of one round trip.
func (s *redisServer) ping(ctx context.Context) (float64, error) {
	start := time.Now()
	err := s.admin.Ping(ctx).Err()
	return time.Since(start).Seconds(), err
}
