"""The manifest of a ReliableQueue: its fields, its parser, its rules. Pure: the caller reads the file.

Local mode and the operator parse with :func:`parse_manifest`; tests compare the CRD and the reference page with the
declarations that :func:`walk` yields.
"""

from claimq.errors import InvalidSpec, Problem
from claimq_control.manifest.declaring import Declared, DeclaredField, Kind, declared_fields, walk
from claimq_control.manifest.parsing import KIND, LONGEST_NAME, Manifest, parse_manifest
from claimq_control.manifest.push_spec import Delivery, PushSpec
from claimq_control.manifest.queue_spec import (
    DeletionPolicy,
    ExpiryAction,
    FailedItemsSpec,
    QueueSpec,
    RemoveFailedSpec,
    RequeueFailedSpec,
    RetryDelaySpec,
)
from claimq_control.manifest.redis_spec import (
    CaSecretRef,
    CertSecretRef,
    PasswordSecretRef,
    RedisSpec,
    SentinelSpec,
    TlsSpec,
    UrlSecretRef,
)
from claimq_control.manifest.rules import RULES, Rule
from claimq_control.manifest.scaling_spec import ScaleDownSpec, ScaleUpSpec, ScalingMode, ScalingSpec
from claimq_control.manifest.waiting_spec import ClientBoundSpec, FairnessSpec, MaxWaitingSpec, TurnsSpec
from claimq_control.manifest.worker_spec import (
    EnvVar,
    Mesh,
    ResourcesSpec,
    SidecarResourcesSpec,
    SidecarSpec,
    TemplateMetadata,
    TemplateSpec,
    WorkerSpec,
)
from claimq_process.names import API_VERSION

__all__ = [
    "API_VERSION",
    "KIND",
    "LONGEST_NAME",
    "RULES",
    "CaSecretRef",
    "CertSecretRef",
    "ClientBoundSpec",
    "Declared",
    "DeclaredField",
    "DeletionPolicy",
    "Delivery",
    "EnvVar",
    "ExpiryAction",
    "FailedItemsSpec",
    "FairnessSpec",
    "InvalidSpec",
    "Kind",
    "Manifest",
    "MaxWaitingSpec",
    "Mesh",
    "PasswordSecretRef",
    "Problem",
    "PushSpec",
    "QueueSpec",
    "RedisSpec",
    "RemoveFailedSpec",
    "RequeueFailedSpec",
    "ResourcesSpec",
    "RetryDelaySpec",
    "Rule",
    "ScaleDownSpec",
    "ScaleUpSpec",
    "ScalingMode",
    "ScalingSpec",
    "SentinelSpec",
    "SidecarResourcesSpec",
    "SidecarSpec",
    "TemplateMetadata",
    "TemplateSpec",
    "TlsSpec",
    "TurnsSpec",
    "UrlSecretRef",
    "WorkerSpec",
    "declared_fields",
    "parse_manifest",
    "walk",
]
