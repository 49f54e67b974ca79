package signers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"lockstep/internal/clip"
	"lockstep/internal/secret"
)

const (
	// maxAnswer bounds what is read of an answer; a list of seven thousand keys fits.
	maxAnswer = 1 << 20
	// maxComplaint bounds what an error quotes of one.
	maxComplaint = 300
)

// web is a key service that is called by HTTP. Where it is comes from the settings, and from nothing that
// anybody asks for.
type web struct {
	base   *url.URL
	header http.Header
	token  secret.String // errors never quote it, also where the service sends it back
	client *http.Client
}

// newWeb takes an address such as https://signer:9000. It follows no redirect: the token is for this service alone.
func newWeb(address string, trust *tls.Config) (*web, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "":
		return nil, errors.New("want an address such as https://signer.example:9000")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("want an address without a user, a query and a fragment")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trust
	transport.MaxIdleConnsPerHost = 32
	transport.MaxResponseHeaderBytes = 64 << 10
	return &web{base: base, header: http.Header{}, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// refusal is an answer of a service that is no success.
type refusal struct {
	status    int
	complaint string
}

func (r *refusal) Error() string {
	if r.complaint == "" {
		return fmt.Sprintf("the service answered %d", r.status)
	}
	return fmt.Sprintf("the service answered %d: %s", r.status, r.complaint)
}

// call asks for a path below the service's address and returns the body of a success. In, if not nil, is sent as JSON.
func (w *web) call(ctx context.Context, method string, in any, path ...string) ([]byte, error) {
	body, err := []byte(nil), error(nil)
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	for i, part := range path {
		path[i] = url.PathEscape(part)
	}
	request, err := http.NewRequestWithContext(ctx, method, w.base.JoinPath(path...).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = w.header.Clone()
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := w.client.Do(request)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err
		}
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := clip.ReadAll(response.Body, maxAnswer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the service's answer: %w", err)
	case response.StatusCode/100 != 2:
		return nil, &refusal{response.StatusCode, w.complaint(answer)}
	}
	return answer, nil
}

// complaint is what an error quotes of an answer.
func (w *web) complaint(answer []byte) string {
	text := string(answer)
	if w.token != "" {
		text = strings.ReplaceAll(text, w.token.Reveal(), w.token.String())
	}
	return clip.Text(strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " "), maxComplaint)
}

// trusts makes the rules of a TLS connection: whom to believe (the system's authorities without roots), and, with a
// certificate and its key, who we are. All are PEM.
func trusts(roots, certificate, key string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(roots)) {
			return nil, errors.New("no certificate of an authority is in it")
		}
	}
	if certificate == "" && key == "" {
		return config, nil
	}
	own, err := tls.X509KeyPair([]byte(certificate), []byte(key))
	if err != nil { // says what is wrong, and nothing of the key
		return nil, err
	}
	// Also for a server that lists other authorities than ours as the ones it takes.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	return config, nil
}
