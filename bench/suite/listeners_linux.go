package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// upgradeCall and subscribeCall are what a listener sends. The frame has a mask of zeros.
const upgradeCall = "GET / HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

var (
	subscribeText = ask("eth_subscribe", "newHeads")
	subscribeCall = append([]byte{0x81, 0x80 | byte(len(subscribeText)), 0, 0, 0, 0}, subscribeText...)
)

func init() { roles["listeners"] = listenersRole }

// listenersRole is the main function of a process of listeners to a relay: it opens so many connections from 127.network.0.0/16,
// subscribes, and tells over HTTP what it has counted. A PUT says which heads are to come.
func listenersRole(ctx context.Context, args []string, out io.Writer) error {
	count, err1 := strconv.Atoi(args[1])
	network, err2 := strconv.ParseUint(args[2], 10, 8)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ls := new(listeners)
	answer := func(w http.ResponseWriter, r *http.Request) {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if r.Method == http.MethodPut {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&ls.expected); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			ls.begin()
		}
		_ = json.NewEncoder(w).Encode(ls.tally) // the suite went away
	}
	return serve(ctx, out, http.HandlerFunc(answer), func(ctx context.Context) error {
		if err := ls.listen(ctx, args[0], count, byte(network)); err != nil { // whoever asks is told
			ls.mu.Lock()
			defer ls.mu.Unlock()
			ls.Failure = err.Error()
		}
		return nil
	})
}

// listen opens the connections, and reads them until ctx ends, in one goroutine and without one for each: the load is to leave as
// much of the processors to the relays as it can.
func (ls *listeners) listen(ctx context.Context, relay string, count int, network byte) error {
	const (
		perAddress = 1000 // connections
		opening    = 32   // connections that may be without their subscription at a time
		patience   = 100  // ms, until the end of ctx is noticed
	)
	to, err := netip.ParseAddrPort(strings.TrimPrefix(relay, "ws://"))
	if err != nil {
		return err
	}
	poller, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer func() { _ = syscall.Close(poller) }() // nothing is left to say
	conns := map[int32]*listener{}
	defer func() {
		for fd := range conns {
			_ = syscall.Close(int(fd)) // the relay notices
		}
	}()
	in, events := make([]byte, 256<<10), make([]syscall.EpollEvent, 256)
	opened := 0
	turn := func(ready []syscall.EpollEvent) error {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		for _, e := range ready {
			n, err := syscall.Read(int(e.Fd), in)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case err != nil || n == 0:
				ls.Closed++
				delete(conns, e.Fd)
				_ = syscall.Close(int(e.Fd)) // the relay did, too
				continue
			}
			if err := ls.take(conns[e.Fd], in[:n], time.Now()); err != nil {
				return err
			}
		}
		for ; opened < count && opened-ls.Subscribed-ls.Closed < opening; opened++ {
			address := opened / perAddress
			fd, early, err := upgraded(to, [4]byte{127, network, byte(address >> 8), byte(address&0xff) + 1}, in)
			if err == nil {
				conns[int32(fd)] = ls.add()
				err = syscall.EpollCtl(poller, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
			}
			if err == nil {
				err = ls.take(conns[int32(fd)], early, time.Now())
			}
			if err != nil {
				return fmt.Errorf("connection %d: %w", opened, err)
			}
		}
		return nil
	}
	for n := 0; err == nil && ctx.Err() == nil; {
		if err = turn(events[:max(n, 0)]); err == nil {
			if n, err = syscall.EpollWait(poller, events, patience); errors.Is(err, syscall.EINTR) {
				err = nil
			}
		}
	}
	return err
}

// upgraded opens a connection from an address, and asks for a subscription on it. early is what came with the upgrade.
func upgraded(to netip.AddrPort, from [4]byte, in []byte) (fd int, early []byte, err error) {
	if fd, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
		return 0, nil, err
	}
	do := func(step func() error) {
		if err == nil {
			err = step()
		}
	}
	send := func(text []byte) func() error { // so short that there is room for it
		return func() error { _, err := syscall.Write(fd, text); return err }
	}
	do(func() error { return syscall.Bind(fd, &syscall.SockaddrInet4{Addr: from}) })
	do(func() error {
		return syscall.Connect(fd, &syscall.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	})
	do(send([]byte(upgradeCall)))
	for n, found := 0, false; err == nil && !found; {
		m, failed := syscall.Read(fd, in[n:])
		switch {
		case errors.Is(failed, syscall.EINTR):
			continue
		case failed != nil:
			err = failed
		case m == 0, n == 0 && !bytes.HasPrefix(in[:m], []byte("HTTP/1.1 101 ")):
			err = fmt.Errorf("the relay did not upgrade: %.200s", in[:n+m])
		}
		n += max(m, 0)
		_, early, found = bytes.Cut(in[:n], []byte("\r\n\r\n"))
	}
	do(send(subscribeCall))
	return fd, early, err
}
