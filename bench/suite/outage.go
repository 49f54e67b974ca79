package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// noNodes has senders queue while no consensus node takes anything: connections are refused, or
// made and never answered, or all nodes say that they are busy. The whole queue is to hear in the time
// that one submission may take what the cause is, and nobody that its nonce is wrong.
func noNodes(ctx context.Context, l *lab, t *table, runs int) error {
	causes := map[string]string{
		"refused": "No consensus node could be reached", "silent": "No consensus node could be reached",
		"busy": "the consensus nodes take no transactions at the moment",
	}
	kinds := []string{"refused", "silent", "busy"}
	for _, kind := range kinds {
		for _, nodes := range []int{1, manyNodes} {
			for _, queued := range queues {
				t.want(outageFigure(kind, nodes, queued), "×", never(1.1, "1.1"), "")
			}
		}
	}
	t.want("answers with another cause", "tx", always(0, "0 in every run"), "")
	t.want("blamed for a nonce", "tx", always(0, "0 in every run"), "")
	t.want("refused when sent again to nodes that work", "tx", always(0, "0 in every run"), "")
	for range runs {
		var sum outageCounts
		for _, kind := range kinds {
			for _, nodes := range []int{1, manyNodes} {
				counts, err := l.outage(ctx, t, kind, nodes, causes[kind])
				if err != nil {
					return fmt.Errorf("%s, %d nodes: %w", kind, nodes, err)
				}
				sum.other += counts.other
				sum.blamed += counts.blamed
				sum.again += counts.again
			}
		}
		t.ours("answers with another cause", "tx", float64(sum.other))
		t.ours("blamed for a nonce", "tx", float64(sum.blamed))
		t.ours("refused when sent again to nodes that work", "tx", float64(sum.again))
	}
	t.note(fmt.Sprintf("Times are to the last answer, in parts of SDK_REQUEST_TIMEOUT, %v. The queues of three senders wait at the same time.", submissionLimit))
	return nil
}

const (
	manyNodes       = 30
	submissionLimit = 10 * time.Second // SDK_REQUEST_TIMEOUT by default
)

var queues = []int{1, 10, 100} // of one sender each

func outageFigure(kind string, nodes, queued int) string {
	return fmt.Sprintf("%s, %d of %d nodes, %d queued", kind, nodes, nodes, queued)
}

// outageCounts are answers that should have been others.
type outageCounts struct{ other, blamed, again int }

// outage fires one kind of outage at a relay of its own.
func (l *lab) outage(ctx context.Context, t *table, kind string, nodes int, cause string) (sum outageCounts, err error) {
	b, err := l.bed(ctx, false, "-nodes", fmt.Sprint(nodes))
	if err != nil {
		return sum, err
	}
	defer b.close()
	var settings []string
	if kind == "busy" {
		err = b.net.behave(ctx, conduct{Busy: true})
	} else {
		var text string
		var closeAll func()
		text, closeAll, err = deadNodes(ctx, nodes, kind == "silent")
		defer closeAll()
		settings = append(settings, "HEDERA_NETWORK="+text)
	}
	if err != nil {
		return sum, err
	}
	r, err := l.listeningRelay(ctx, b.net, nil, settings...) // no node takes anything: it is not ready
	if err != nil {
		return sum, err
	}
	b.relays = append(b.relays, r)
	raw := make([][]string, len(queues))
	for i, queued := range queues {
		if raw[i], _, err = b.signed(ctx, r, b.net.Accounts[firstSender+i].PrivateKey, queued); err != nil {
			return sum, err
		}
	}
	type heard struct {
		errs  []error
		after time.Duration
	}
	answers := make([]chan heard, len(queues))
	for i := range queues {
		answers[i] = make(chan heard, 1)
		go func() {
			began := time.Now()
			errs := callTogether(ctx, r.url, raw[i])
			answers[i] <- heard{errs, time.Since(began)}
		}()
	}
	for i, queued := range queues {
		h := <-answers[i]
		t.ours(outageFigure(kind, nodes, queued), "×", h.after.Seconds()/submissionLimit.Seconds())
		for _, err := range h.errs {
			switch {
			case err == nil, !strings.Contains(err.Error(), cause):
				sum.other++
				t.count(fmt.Sprintf("%s: %v", kind, err), 1)
			}
			if err != nil && strings.Contains(err.Error(), "Nonce too") {
				sum.blamed++
			}
		}
	}
	if kind != "busy" {
		return sum, nil
	}
	if err := b.net.behave(ctx, conduct{}); err != nil {
		return sum, err
	}
	for i := range queues {
		for _, err := range callTogether(ctx, r.url, raw[i]) {
			if err != nil {
				sum.again++
				t.count("sent again: "+err.Error(), 1)
			}
		}
	}
	return sum, nil
}

// deadNodes returns a network of nodes that cannot be reached, and how to end it.
func deadNodes(ctx context.Context, nodes int, silent bool) (text string, end func(), err error) {
	var open []net.Listener
	end = func() {
		for _, l := range open {
			_ = l.Close() // nobody is connected to it any more
		}
	}
	accounts := map[string]string{}
	for i := range nodes {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", end, err
		}
		accounts[listener.Addr().String()] = fmt.Sprintf("0.0.%d", 3+i)
		open = append(open, listener)
	}
	if !silent {
		end()
		open = nil
	}
	encoded, err := json.Marshal(accounts)
	return string(encoded), end, err
}

// callTogether sends raw transactions in one batch, so that they queue in this order, and returns
// their errors.
func callTogether(ctx context.Context, url string, raw []string) []error {
	calls := make([]map[string]any, len(raw))
	for i, tx := range raw {
		calls[i] = map[string]any{"jsonrpc": "2.0", "id": i, "method": "eth_sendRawTransaction", "params": []string{tx}}
	}
	var answers []struct {
		Error *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	body, err := json.Marshal(calls)
	if err == nil {
		err = request(ctx, "POST", url, string(body), &answers)
	}
	if err == nil && len(answers) != len(raw) {
		err = fmt.Errorf("%d answers to %d transactions", len(answers), len(raw))
	}
	if err != nil {
		return slices.Repeat([]error{err}, len(raw))
	}
	errs := make([]error, len(raw))
	for i, answer := range answers {
		if answer.Error != nil {
			errs[i] = errors.New(answer.Error.Message)
		}
	}
	return errs
}
