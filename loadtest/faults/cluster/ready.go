package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// AwaitReady waits until every process serves.
func (c *Cluster) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.notReady(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// notReady says who does not serve yet; nil if all do.
func (c *Cluster) notReady(ctx context.Context) error {
	if err := c.etcdNotReady(ctx); err != nil {
		return err
	}
	for _, n := range c.nats {
		if err := answers(ctx, "tcp", n.client); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	for _, r := range c.registries {
		if _, err := get(ctx, http.MethodGet, "http://"+r.admin+"/readyz", ""); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	for _, a := range c.Agents {
		if err := a.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) etcdNotReady(ctx context.Context) error {
	for _, e := range c.etcd {
		if body, err := get(ctx, http.MethodGet, "http://"+e.client+"/health", ""); err != nil || !strings.Contains(body, `"true"`) {
			return fmt.Errorf("%s: %w", e.name, errors.Join(err, fmt.Errorf("it says %q", body)))
		}
	}
	return nil
}

// Ready says why the agent's socket does not answer; nil if it does.
func (a *Agent) Ready(ctx context.Context) error {
	if err := answers(ctx, "unix", filepath.Join(a.SocketDir, "grpc.sock")); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	if err := answers(ctx, "unix", a.RESP()); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// RESP is the path of the agent's resp.sock.
func (a *Agent) RESP() string { return filepath.Join(a.SocketDir, "resp.sock") }

// GRPC is the path of the agent's grpc.sock.
func (a *Agent) GRPC() string { return filepath.Join(a.SocketDir, "grpc.sock") }

func answers(ctx context.Context, network, address string) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func get(ctx context.Context, method, url, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(text), err
}

// members asks etcd for the ids that its members call one another by.
func (c *Cluster) members(ctx context.Context) (map[int]string, error) {
	text, err := get(ctx, http.MethodPost, "http://"+c.etcd[0].client+"/v3/cluster/member/list", "{}")
	if err != nil {
		return nil, err
	}
	var list struct {
		Members []struct{ ID, Name string }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("etcd's members: %w", err)
	}
	ids := map[int]string{}
	for _, m := range list.Members {
		id, err := strconv.ParseUint(m.ID, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("etcd's members: %w", err)
		}
		for i, e := range c.etcd {
			if e.name == m.Name {
				ids[i] = strconv.FormatUint(id, 16)
			}
		}
	}
	if len(ids) != len(c.etcd) {
		return nil, fmt.Errorf("etcd's members: %s names %d of %d", text, len(ids), len(c.etcd))
	}
	return ids, nil
}

// PutRecord overwrites an object's record in etcd, past the registries.
func (c *Cluster) PutRecord(ctx context.Context, key, record string) error {
	body, err := json.Marshal(map[string][]byte{"key": []byte("/scriptorium/" + key), "value": []byte(record)})
	if err != nil {
		return err
	}
	for _, member := range c.etcd {
		if _, err = get(ctx, http.MethodPost, "http://"+member.client+"/v3/kv/put", string(body)); err == nil {
			return nil
		}
	}
	return err
}

// AgentBytes returns how many bytes the registries have stored about agents.
func (c *Cluster) AgentBytes(ctx context.Context) (int, error) {
	body, err := json.Marshal(map[string][]byte{"key": []byte("/scriptorium/fleet/agents/"), "range_end": []byte("/scriptorium/fleet/agents0")})
	if err != nil {
		return 0, err
	}
	var answer string
	for _, member := range c.etcd {
		if answer, err = get(ctx, http.MethodPost, "http://"+member.client+"/v3/kv/range", string(body)); err == nil {
			break
		}
	}
	var list struct {
		KVs []struct{ Key, Value []byte }
	}
	if err == nil {
		err = json.Unmarshal([]byte(answer), &list)
	}
	bytes := 0
	for _, kv := range list.KVs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	return bytes, err
}
