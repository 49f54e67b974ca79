package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/sleep"
)

// trial is one run of a short failure.
type trial struct {
	*bed
	shortFailure

	http *http.Client
	log  decisions
	sent []*sending
}

// sending is one transaction and what its client heard.
type sending struct {
	raw    string
	hash   common.Hash
	sender common.Address
	nonce  uint64
	relay  int // that it goes to first
	err    error
	answer string // "hash", what the relay said, or "nothing"
	again  bool   // it was sent more than once
	waited time.Duration
	refuse bool // there was no room for it
	gone   bool // it was in the hands of a relay that is gone
}

const (
	gotHash = "hash"
	nothing = "no answer"
)

// suffer runs a short failure once.
func (l *lab) suffer(ctx context.Context, h shortFailure) (v verdict, err error) {
	b, err := l.bed(ctx, h.fleet > 1, "-consensus-latency", "100ms")
	if err != nil {
		return v, err
	}
	defer b.close()
	s := &trial{bed: b, shortFailure: h, http: &http.Client{
		Timeout:   clientPatience,
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 0},
	}, log: decisions{net: b.net}}
	defer s.http.CloseIdleConnections()
	for range h.fleet {
		if _, err := b.relay(ctx, b.redis, h.settings...); err != nil {
			return v, err
		}
	}
	if err := s.prepare(ctx); err != nil {
		return v, err
	}
	if h.rules != "" {
		rules := h.rules
		if strings.Contains(rules, "%v") {
			rules = fmt.Sprintf(rules, h.lasts)
		}
		if err := b.net.spoil(ctx, rules); err != nil {
			return v, err
		}
	}
	if err := b.net.behave(ctx, usual()); err != nil {
		return v, err
	}
	return s.play(ctx)
}

// prepare signs everything, so that signing takes no time from the relays.
func (s *trial) prepare(ctx context.Context) error {
	for i := range s.senders {
		if firstSender+i >= len(s.net.Accounts) {
			return errors.New("there are not enough accounts for so many senders")
		}
		raw, hashes, err := s.signed(ctx, s.relays[0], s.net.Accounts[firstSender+i].PrivateKey, s.count)
		if err != nil {
			return err
		}
		for nonce := range raw {
			relay := i
			if !s.sticky {
				relay = nonce
			}
			s.sent = append(s.sent, &sending{
				raw: raw[nonce], hash: hashes[nonce], sender: common.HexToAddress(s.net.Accounts[firstSender+i].Address), nonce: uint64(nonce), relay: relay % s.fleet,
			})
		}
	}
	return nil
}

// play sends everything, makes trouble meanwhile, and judges.
func (s *trial) play(ctx context.Context) (v verdict, err error) {
	began := time.Now()
	var clients sync.WaitGroup
	troubled := make(chan error, 1)
	go func() { troubled <- s.makeTrouble(ctx) }()
	for nonce := range s.count {
		for sender := range s.senders {
			one := s.sent[sender*s.count+nonce]
			clients.Go(func() { s.client(ctx, one) })
		}
		sleep.For(ctx, time.Millisecond)
	}
	clients.Wait()
	if err := <-troubled; err != nil {
		return v, err
	}
	answered := time.Since(began)
	last, err := s.log.settle(ctx, len(s.sent), max(s.quiet, quietTime/2))
	if err != nil {
		return v, err
	}
	v = s.log.judge(s.sent)
	v.took = max(answered, last.Sub(began))
	return v, nil
}

// makeTrouble waits until a fifth was executed. Then it begins.
func (s *trial) makeTrouble(ctx context.Context) error {
	if s.trouble == nil {
		return nil
	}
	begun := decisions{net: s.net}
	err := poll(ctx, startLimit, 5*time.Millisecond, func() error {
		if err := begun.read(ctx); err != nil {
			return err
		}
		if len(begun.entries) < len(s.sent)/5 {
			return fmt.Errorf("%d of %d were executed", len(begun.entries), len(s.sent))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.trouble(ctx, s)
}

// The patience of clients: with one request, and with all that they send again.
const (
	clientPatience = 100 * time.Second
	resendPause    = 100 * time.Millisecond
)

// client sends one transaction, again if the case says so, until it has an answer.
func (s *trial) client(ctx context.Context, one *sending) {
	end := time.Now().Add(clientPatience)
	for attempt := 0; ; attempt++ {
		began := time.Now()
		answered, err := s.post(ctx, s.relays[(one.relay+attempt)%len(s.relays)], one.raw)
		one.waited, one.err, one.again = max(one.waited, time.Since(began)), err, attempt > 0
		one.refuse = err != nil && strings.Contains(err.Error(), "Too many transactions of this sender")
		switch {
		case err == nil:
			one.answer = gotHash
			return
		case !answered:
			one.answer, one.gone = nothing, s.unheard
		default:
			one.answer = plain(err.Error())
		}
		behind := answered && err != nil && strings.Contains(err.Error(), "Nonce too high") // what had no room
		again := !answered && s.resend == unanswered || (one.refuse || behind) && s.resend == noRoom
		if !again || time.Now().After(end) || ctx.Err() != nil {
			return
		}
		sleep.For(ctx, resendPause)
	}
}

// post makes one request. answered is false if the relay said nothing.
func (s *trial) post(ctx context.Context, r *relay, raw string) (answered bool, err error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["` + raw + `"]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Result string `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return false, err
	}
	if answer.Error != nil {
		return true, errors.New(answer.Error.Message)
	}
	return true, nil
}

// plain is an error without what differs from one to the next.
func plain(text string) string {
	if strings.HasPrefix(text, "[Request ID: ") {
		_, text, _ = strings.Cut(text, "] ")
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// The kinds of trouble.

func killRelay(_ context.Context, s *trial) error {
	s.relays[0].kill()
	return nil
}

func stopRelay(ctx context.Context, s *trial) error { return s.pause(ctx, s.relays[0].process) }

func stopRedis(ctx context.Context, s *trial) error { return s.pause(ctx, s.redis.process) }

// pause stops a process for as long as the trouble lasts.
func (s *trial) pause(ctx context.Context, p *process) error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep.For(ctx, s.lasts)
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

func spoilMirror(rules string) func(ctx context.Context, s *trial) error {
	return func(ctx context.Context, s *trial) error {
		if err := s.net.spoil(ctx, rules); err != nil {
			return err
		}
		sleep.For(ctx, s.lasts)
		return s.net.spoil(ctx, "[]")
	}
}
