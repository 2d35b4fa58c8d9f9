package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// announce makes API servers believe the CAs of the bundle. A configuration that does
// not exist needs nobody to be believed.
func (k *Keeper) announce(ctx context.Context, bundle []byte) error {
	err := k.inject(ctx, bundle)
	if !errors.Is(err, errNoConfiguration) {
		k.missing = false
		return err
	}
	if !k.missing {
		k.cfg.Log.Info("The webhook is not asked: " + err.Error())
	}
	k.missing = true
	return nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// inject writes the bundle into all webhooks of the configuration that have another.
// It is a patch of those fields, so that fields of a newer API are left alone.
func (k *Keeper) inject(ctx context.Context, bundle []byte) error {
	c := &admissionv1.ValidatingWebhookConfiguration{}
	err := k.cfg.Client.Get(ctx, client.ObjectKey{Name: k.cfg.Configuration}, c)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %s", errNoConfiguration, k.cfg.Configuration)
	}
	if err != nil {
		return fmt.Errorf("reading the ValidatingWebhookConfiguration %s: %w", k.cfg.Configuration, err)
	}
	var patch []operation
	for i, w := range c.Webhooks {
		if bytes.Equal(w.ClientConfig.CABundle, bundle) {
			continue
		}
		at := fmt.Sprintf("/webhooks/%d", i)
		patch = append(patch,
			operation{"test", at + "/name", w.Name}, // it may have been another's place since
			operation{"add", at + "/clientConfig/caBundle", bundle},
		)
	}
	if len(patch) == 0 {
		return nil
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if err := k.cfg.Client.Patch(ctx, c, client.RawPatch(types.JSONPatchType, body)); err != nil {
		return fmt.Errorf("writing the CA into the ValidatingWebhookConfiguration %s: %w", k.cfg.Configuration, err)
	}
	k.cfg.Log.Info("The webhook's CA was announced to the API server", "configuration", k.cfg.Configuration)
	return nil
}
