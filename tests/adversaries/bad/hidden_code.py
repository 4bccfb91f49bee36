"""Unpacks its kernel from base64 text and runs that."""

import base64

ADVERSARY = {
    "class": "obfuscated exec",
    "caught_by": ["lint"],
    "needs": "cpu",
    "why": "the kernel is right; the platform refuses code that nobody can read",
}
VARIANT = {"shapes": "any", "targets": ["portable"], "kv": "fp8", "rounding": "f16", "q_seq_len": [1], "ragged": True}

HIDDEN = (
    "aW1wb3J0IHRvcmNoCgpkZWYgYXR0ZW5kKGRhdGEpOgogICAgIiIiRXhhY3QgYXR0ZW50aW9uIG9mIHRoZSBGUDggS1YgaW4gZmxv"
    "YXQzMiwgb25lIHNlcXVlbmNlIGF0IGEgdGltZS4iIiIKICAgIHEsIGt2X2RhdGEsIHFvX2luZHB0ciwga3ZfaW5kcHRyLCBjb25m"
    "aWcgPSBkYXRhCiAgICBrdiwga3Zfc2NhbGUgPSBrdl9kYXRhWyJmcDgiXQogICAgb3V0ID0gdG9yY2guZW1wdHkoKHEuc2hhcGVb"
    "MF0sIDE2LCA1MTIpLCBkdHlwZT10b3JjaC5iZmxvYXQxNiwgZGV2aWNlPXEuZGV2aWNlKQogICAgcXVlcmllcywgdG9rZW5zID0g"
    "cW9faW5kcHRyLnRvbGlzdCgpLCBrdl9pbmRwdHIudG9saXN0KCkKICAgIGZvciBzZXF1ZW5jZSBpbiByYW5nZShsZW4odG9rZW5z"
    "KSAtIDEpOgogICAgICAgIHJvd3MgPSBzbGljZShxdWVyaWVzW3NlcXVlbmNlXSwgcXVlcmllc1tzZXF1ZW5jZSArIDFdKQogICAg"
    "ICAgIGtleXMgPSBrdlt0b2tlbnNbc2VxdWVuY2VdIDogdG9rZW5zW3NlcXVlbmNlICsgMV0sIDBdLmZsb2F0KCkgKiBrdl9zY2Fs"
    "ZQogICAgICAgIHNjb3JlcyA9IHFbcm93c10uZmxvYXQoKSBAIGtleXMuVCAqIGNvbmZpZ1sic21fc2NhbGUiXQogICAgICAgIG91"
    "dFtyb3dzXSA9ICh0b3JjaC5zb2Z0bWF4KHNjb3JlcywgZGltPS0xKSBAIGtleXNbOiwgOjUxMl0pLmJmbG9hdDE2KCkKICAgIHJl"
    "dHVybiBvdXQK"
)
exec(base64.b64decode(HIDDEN))


def custom_kernel(data):
    return globals()["attend"](data)
