package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
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
	for opened := 0; ctx.Err() == nil; {
		for ; opened < count && opened-ls.seated() < opening; opened++ {
			address := opened / perAddress
			fd, early, err := upgraded(to, [4]byte{127, network, byte(address >> 8), byte(address&0xff) + 1}, in)
			if err == nil {
				err = syscall.EpollCtl(poller, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
			}
			if err != nil {
				return fmt.Errorf("connection %d: %w", opened, err)
			}
			conns[int32(fd)] = ls.add()
			if err := ls.take(conns[int32(fd)], early, time.Now()); err != nil {
				return err
			}
		}
		n, err := syscall.EpollWait(poller, events, patience)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			n, err := syscall.Read(int(e.Fd), in)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case err != nil || n == 0:
				ls.lost()
				delete(conns, e.Fd)
				_ = syscall.Close(int(e.Fd)) // the relay did, too
				continue
			}
			if err := ls.take(conns[e.Fd], in[:n], time.Now()); err != nil {
				return err
			}
		}
	}
	return nil
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
